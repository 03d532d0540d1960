import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.backends import backend
from kokoro_nb.locate import divergences
from tests.faults.artefact_files import edit_mlpackage_weight, edit_onnx_weight, mlpackage_weights, onnx_weights

WEIGHTS = {"onnxruntime": onnx_weights, "coreml-reference-float32": mlpackage_weights}
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


def _read(path, name):
    """Return every weight in the file."""
    found = {}
    for weight in WEIGHTS[name](path):

        def keep(value, weight=weight):
            found[weight] = value
            return value

        EDITS[name](path, weight, keep)
    return found


def _one_element(weight):
    weight.reshape(-1)[5] += 0.5
    return weight


@BOTH
def test_writing_what_was_read_changes_no_byte_of_the_weights(name, artifact, exported):
    weight = _read(artifact.path, name)[NAMES[name]]
    assert np.array_equal(weight, exported.module.conv.weight.detach().numpy())
    files = list(artifact.path.parent.rglob("weight.bin"))
    before = [hashlib.sha256(path.read_bytes()).digest() for path in files]
    EDITS[name](artifact.path, NAMES[name], lambda value: value)
    assert [hashlib.sha256(path.read_bytes()).digest() for path in files] == before


@BOTH
def test_one_element_of_one_weight_is_changed(name, artifact):
    before = _read(artifact.path, name)
    EDITS[name](artifact.path, NAMES[name], _one_element)
    after = _read(artifact.path, name)
    assert [weight for weight in before if not np.array_equal(before[weight], after[weight])] == [NAMES[name]]
    changed = after[NAMES[name]] - before[NAMES[name]]
    assert np.count_nonzero(changed) == 1
    assert changed.max() == pytest.approx(0.5)


@BOTH
def test_the_operator_that_reads_the_weight_is_named(name, artifact, exported, inputs):
    reference = backend("eager").load(backend("eager").export(exported, inputs)).trace(inputs, keep="full")
    load = backend(name).load
    assert divergences(reference, load(artifact).trace(inputs, keep="full")) == ()
    EDITS[name](artifact.path, NAMES[name], _one_element)
    (found,) = divergences(reference, load(artifact).trace(inputs, keep="full"))
    assert found.tap.name == "conv:conv1d"
