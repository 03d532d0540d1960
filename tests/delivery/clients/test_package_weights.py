"""Weights of Core ML packages as int8: fewer bytes, the same inputs and outputs, an error of the rounding alone."""

import numpy as np
import torch

from kokoro_nb.delivery.clients.client_contract import TensorRule
from kokoro_nb.delivery.clients.programs import StageProgram
from kokoro_nb.delivery.clients.staged_programs import package, quantise

SIZE = 256
SIGNATURE = ((TensorRule("x", "float32", (1, SIZE)),), (TensorRule("y", "float32", (1, SIZE)),))


def _bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_int8_is_a_quarter_of_float32_and_off_by_its_rounding(tmp_path):
    torch.manual_seed(0)
    layer = torch.nn.Linear(SIZE, SIZE, bias=False).eval()
    path = tmp_path / "layer.mlpackage"
    package(layer, SIGNATURE, {}, True, path)
    given = {"x": np.random.default_rng(0).standard_normal((1, SIZE)).astype(np.float32)}
    whole, before = StageProgram(path)(given)["y"], _bytes(path)
    quantise(path)
    rounded = StageProgram(path)(given)["y"]
    assert _bytes(path) < 0.3 * before
    assert rounded.dtype == whole.dtype
    step = layer.weight.detach().abs().amax(dim=1).numpy() / 127  # of each channel
    off = np.abs(rounded - whole)[0]
    assert off.any()
    assert (off <= step / 2 * np.abs(given["x"]).sum() + 1e-5).all()
