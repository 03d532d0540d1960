import shutil
from dataclasses import replace

import pytest

from kokoro_nb.backends import backend
from kokoro_nb.locate import divergences
from tests.faults.artefact_files import edit_mlpackage_weight, edit_onnx_weight

EDITS = {"onnxruntime": edit_onnx_weight, "coreml-reference-float32": edit_mlpackage_weight}
NAMES = {"onnxruntime": "conv.weight", "coreml-reference-float32": "p_conv_weight"}
BOTH = pytest.mark.parametrize("name", list(EDITS))


@pytest.fixture(scope="module")
def artifacts(exported, inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artefacts")
    return {name: backend(name).export(exported, inputs, folder) for name in EDITS}


@pytest.fixture
def artifact(artifacts, tmp_path, name):
    """Return a copy of an artefact, free to be spoilt."""
    healthy = artifacts[name]
    folder = tmp_path / healthy.path.parent.name
    shutil.copytree(healthy.path.parent, folder)
    return replace(healthy, path=folder / healthy.path.name)


def _one_element(weight):
    weight.reshape(-1)[5] += 0.5
    return weight


@BOTH
def test_the_operator_that_reads_the_weight_is_named(name, artifact, exported, inputs):
    reference = backend("eager").load(backend("eager").export(exported, inputs)).trace(inputs, keep="full")
    load = backend(name).load
    assert divergences(reference, load(artifact).trace(inputs, keep="full")) == ()
    EDITS[name](artifact.path, NAMES[name], _one_element)
    (found,) = divergences(reference, load(artifact).trace(inputs, keep="full"))
    assert found.tap.name == "conv:conv1d"
