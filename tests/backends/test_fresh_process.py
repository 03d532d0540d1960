from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.fresh_process import run_fresh
from kokoro_nb.errors import InputError

SLOW = pytest.param("executorch-xnnpack", marks=pytest.mark.slow)
NAMES = ["aot-inductor", "onnxruntime", SLOW]


class Block(nn.Module):
    """A convolution and a norm, integers and truth values, and an output of another name than its input's."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(3, 4, 3, padding=1), nn.InstanceNorm1d(4, affine=True)

    def forward(self, x, mask):
        return {"audio": torch.tanh(self.norm(self.conv(x))), "mask": mask.logical_not(), "a/b": x}


def _inputs():
    torch.manual_seed(0)
    x = torch.randn(1, 3, 8)
    x[0, 1, 2] = float("nan")
    return {"x": x, "mask": torch.tensor([True, False])}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a function: the block as a backend exports it, and what it gives in this process."""
    folder, inputs = tmp_path_factory.mktemp("artefacts"), _inputs()
    exported = export_program(Block(), inputs)

    def get(name):
        backend = BACKENDS[name]
        reason = backend.available()
        if reason is not None:
            pytest.skip(reason)
        artifact = backend.export(exported, inputs, folder)
        assert not isinstance(artifact, Failure), str(artifact)
        return artifact, backend.load(artifact).run(inputs)

    return get


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_never_saw_the_model_computes_the_same_bits(name, made):
    artifact, here = made(name)
    found = run_fresh(name, artifact, _inputs(), calls=2)
    assert list(found.outputs) == list(here) == ["audio", "mask", "a/b"]
    for output, value in found.outputs.items():
        assert value.dtype == here[output].dtype
        np.testing.assert_array_equal(value.view(np.uint8), here[output].view(np.uint8))  # NaN included
    assert np.isnan(found.outputs["a/b"]).any()
    assert len(found.calls) == 2
    assert found.seconds["run"] == found.calls[0] > 0
    assert found.seconds["loaded"] > 0
    assert found.imported("kokoro_nb.backends")
    assert not found.imported("kokoro")
    assert not found.imported("kokoro_nb.models")
    assert not any(module.startswith("tests") or "test_fresh_process" in module for module in found.modules)


def test_what_is_imported_is_reported(made):
    artifact, _ = made("onnxruntime")
    found = run_fresh("onnxruntime", artifact, _inputs())
    assert found.imported("onnxruntime")
    assert not found.imported("torch")  # a deployment on ONNX Runtime needs none
    artifact, _ = made("aot-inductor")
    assert run_fresh("aot-inductor", artifact, _inputs()).imported("torch")


def test_a_process_that_fails_says_why(made):
    artifact, _ = made("aot-inductor")
    artifact.path.write_bytes(b"no model")
    with pytest.raises(RuntimeError, match=r"process that ran aot-inductor ended with 1: (?s:.)*Error"):
        run_fresh("aot-inductor", artifact, _inputs())


def test_refuses_what_no_other_process_could_load(made, tmp_path):
    artifact, _ = made("onnxruntime")
    eager = BACKENDS["eager"].export(Block(), _inputs())
    with pytest.raises(InputError, match="eager writes no file that another process could load"):
        run_fresh("eager", eager, _inputs())
    with pytest.raises(InputError, match="0 calls are too few"):
        run_fresh("onnxruntime", artifact, _inputs(), calls=0)
    with pytest.raises(InputError, match="cannot load what onnxruntime exported"):
        run_fresh("aot-inductor", artifact, _inputs())
    with pytest.raises(InputError, match="no longer there"):
        run_fresh("onnxruntime", replace(artifact, path=tmp_path / "gone"), _inputs())
    with pytest.raises(InputError, match="Input 'mask' is missing"):
        run_fresh("onnxruntime", artifact, {"x": _inputs()["x"]})
