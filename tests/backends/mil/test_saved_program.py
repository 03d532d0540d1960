"""Files: read back, and refused."""

import shutil

import numpy as np
import pytest

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.mil import load_program
from kokoro_nb.backends.mil.interpreter import Interpreter
from tests.refusals import refused

WEIGHT = np.random.default_rng(0).normal(size=(40, 30)).astype("float32")
DATA = "Data/com.apple.CoreML"
X = np.random.default_rng(1).normal(size=(2, 30)).astype("float32")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Return a saved program with a weight in a file of its own, a condition and texts."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    @mb.program(input_specs=[mb.TensorSpec((2, 30))], opset_version=ct.target.iOS17)
    def program(x):
        x = mb.linear(x=x, weight=WEIGHT, bias=WEIGHT[:, 0])
        x = mb.gelu(x=x, mode="TANH_APPROXIMATION")
        return mb.cond(
            pred=mb.greater(x=mb.reduce_max(x=x), y=0.0),
            _true_fn=lambda: mb.mul(x=x, y=2.0),
            _false_fn=lambda: mb.identity(x=x),
            name="result",
        )

    how = {"compute_precision": ct.precision.FLOAT32, "pass_pipeline": ct.PassPipeline.EMPTY}
    return _saved(program, "iOS17", tmp_path_factory.mktemp("package"), **how)


def _saved(program, target, folder, **how):
    import coremltools as ct

    with quietly():
        how |= {"minimum_deployment_target": getattr(ct.target, target), "skip_model_load": True}
        ct.convert(program, convert_to="mlprogram", **how).save(str(folder / "model.mlpackage"))
    return folder / "model.mlpackage"


def test_a_file_computes_what_was_written(package):
    import torch

    saved = load_program(package)
    x, weight = torch.tensor(X).double(), torch.tensor(WEIGHT).double()
    expected = 2 * torch.nn.functional.gelu(x @ weight.T + weight[:, 0], approximate="tanh")
    np.testing.assert_allclose(Interpreter(saved.program).run({"x": X})["result"], expected, atol=1e-5)


def test_a_file_with_a_state(tmp_path):
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    specs = [mb.TensorSpec((2,), dtype=types.fp16), mb.StateTensorSpec((2,), dtype=types.fp16)]

    @mb.program(input_specs=specs, opset_version=ct.target.iOS18)
    def program(x, total):
        more = mb.add(x=mb.read_state(input=total), y=x)
        return mb.mul(x=mb.coreml_update_state(state=total, value=more), y=np.float16(2), name="twice")

    interpreter = Interpreter(load_program(_saved(program, "iOS18", tmp_path)).program)
    assert (interpreter.inputs, interpreter.states) == (("x",), ("total",))
    assert interpreter.run({"x": np.array([1.0, 2.0], "float16")})["twice"].tolist() == [2, 4]


def test_refuses_what_is_no_package(tmp_path):
    file = tmp_path / "model.mlmodel"
    file.write_bytes(b"text")
    for path in (file, tmp_path, tmp_path / "absent.mlpackage"):
        refused(r"is no Core ML package; give a folder that ends in \.mlpackage", load_program, path)


@pytest.mark.parametrize("spoil", ["Manifest.json", f"{DATA}/model.mlmodel", f"{DATA}/weights/weight.bin"])
def test_refuses_a_package_that_was_cut_off(package, tmp_path, spoil):
    path = shutil.copytree(package, tmp_path / "copy.mlpackage")
    content = (path / spoil).read_bytes()
    (path / spoil).write_bytes(content[: len(content) // 2])
    refused(r"(is damaged|cannot be read) .*; export it again", load_program, path)


def test_refuses_a_neural_network(tmp_path):
    import coremltools as ct

    spec = ct.proto.Model_pb2.Model()
    spec.specificationVersion = 4
    spec.neuralNetwork.SetInParent()
    path = tmp_path / "old.mlpackage"
    with quietly():
        ct.utils.save_spec(spec, str(path), weights_dir=str(tmp_path))
    refused("of kind neuralNetwork, not an ML program; convert it to an mlprogram", load_program, path)
