import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import absence
from kokoro_nb.errors import InputError

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Waves(nn.Module):
    def forward(self, x):
        return torch.exp(torch.sin(x))


@pytest.mark.parametrize("name", ["torchscript", "torchscript-lite", "aot-inductor", "onnxruntime-qnn"])
def test_a_runtime_without_a_tracer_says_that_everything_is_missing(name, tmp_path):
    backend = BACKENDS[name]
    reason = absence(backend)
    if reason is not None:
        pytest.skip(reason)
    program = backend.load(backend.export(Waves(), X, tmp_path))
    trace = program.trace(X)
    assert (trace.backend, trace.taps, trace.missing) == (name, (), (":sin", ":exp"))
    assert "not at all" in trace.how
    np.testing.assert_array_equal(trace.outputs["output"], program.run(X)["output"])
    np.testing.assert_array_equal(trace.inputs["x"], X["x"])
    assert program.trace(X, ":exp").missing == (":exp",)
    with pytest.raises(InputError, match="no operator ':cos'"):
        program.trace(X, [":cos"])
    with pytest.raises(InputError, match="Input 'x' is missing"):
        program.trace({})
