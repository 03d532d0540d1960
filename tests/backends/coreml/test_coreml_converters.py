"""The operators that coremltools lacks: what it says to them, and that ours are right."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.coreml import conversion
from kokoro_nb.backends.coreml.coreml_converters import own_converters

ROUTES = ("export", "trace")
X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Function(nn.Module):
    """A module of one function of `x`."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _plain(coreml, module, inputs, route, tmp_path):
    """Convert with the converters of coremltools alone."""
    backend = replace(coreml, name="plain", route=route)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "own_converters", nullcontext)
        return backend.export(module, inputs, tmp_path)


class Unidirectional(nn.Module):
    """An LSTM of two layers with all three results."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y, h, c


IDS = {"x": torch.arange(4)[None]}
# Each operator, and what coremltools 9.0 says to it on the routes where it cannot convert it.
OPERATORS = {
    "int": (lambda x: x[..., : x.shape[-1] // 2], X, {"trace": "only 0-dimensional arrays can be converted"}),
    "multiply": (lambda x: torch.multiply(x, x), X, dict.fromkeys(ROUTES, "multiply")),
    "and": (lambda x: (x > -0.5) & (x < 0.5), X, {"export": "kind __and__"}),
    "new_ones": (lambda x: x.new_ones(3, 4) + x, X, dict.fromkeys(ROUTES, "new_ones")),
    "new_ones, scalar": (lambda x: x.new_ones(()) + x, X, dict.fromkeys(ROUTES, "new_ones")),
    "new_ones, truth": (lambda x: x.new_ones(3, 4, dtype=torch.bool), X, dict.fromkeys(ROUTES, "new_ones")),
    "new_ones, whole": (lambda x: 7 // x.new_ones(1, 4).add(x), IDS, dict.fromkeys(ROUTES, "new_ones")),
    "where": (lambda x: torch.where(x > 0, x, 0.5), X, {"export": "kind where.scalarother"}),
    "lstm": (Unidirectional(), X, {"export": "kind lstm.input"}),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_coremltools_lacks_is_converted_and_right(name, route, coreml, run, tmp_path):
    function, inputs, errors = OPERATORS[name]
    module = function if isinstance(function, nn.Module) else Function(function)
    plain = _plain(coreml, module, inputs, route, tmp_path)
    if route in errors:  # when coremltools has mended it, our converter can go
        assert plain.rung == "lowered"
        assert errors[route] in f"{plain.message} {plain.cause}"
    else:
        assert isinstance(plain, Artifact)
    results = run(module, inputs, route)
    with torch.no_grad():
        expected = module(**inputs)
    for result, value in zip(results.values(), expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert result.dtype == value.numpy().dtype
        np.testing.assert_allclose(result, value.numpy(), atol=1e-6)


def test_our_converters_are_in_force_only_while_we_convert():
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY as registry

    before = dict(registry.name_to_func_mapping)
    with own_converters():
        assert "new_ones" in registry.name_to_func_mapping
    assert registry.name_to_func_mapping == before
    with pytest.raises(ZeroDivisionError), own_converters():
        1 / 0  # noqa: B018
    assert registry.name_to_func_mapping == before
    assert "new_ones" not in before
