"""Each operator alone against torch in float64, with the values at its edges: NaN, infinities, ties, signs of 0."""

from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm.indexing import CONVERTERS as INDEXING
from kokoro_nb.backends.tvm.tvm_converters import CONVERTERS

NAN, INF = float("nan"), float("inf")
TINY = 2.0**-10  # exact, so that a remainder in float32 is that in float64
EDGES = torch.tensor([-INF, -100.0, -2.5, -1.0, -0.5, -TINY, -0.0, 0.0, TINY, 0.5, 1.0, 2.5, 89.0, INF, NAN])
A, B = (grid.reshape(-1).contiguous() for grid in torch.meshgrid(EDGES, EDGES, indexing="ij"))
WHOLE = torch.arange(-4, 5)
X = torch.linspace(-2, 3, 96).sin().reshape(2, 6, 8)
GAPPED = X.clone()
GAPPED[0, 1, 2], GAPPED[1, 2, 3], GAPPED[1, 4, :] = NAN, INF, -INF
SMALL = torch.logspace(-9, 0, 20)


class Of(nn.Module):
    """A function of one tensor or two as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y=None):
        return self.function(x) if y is None else self.function(x, y)


class Lstm(nn.Module):
    """An LSTM with its last states as outputs."""

    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(8, 5, **options)

    def forward(self, x):
        output, (hidden, cell) = self.lstm(x)
        return output, hidden, cell


def _with_half(name, x):
    """Apply the form of an operator for a number, which `torch.export` writes for some of them alone."""
    return getattr(torch.ops.aten, name).Scalar(x, 0.5)


CASES = {
    "add": (torch.add, A, B),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=2), A, B),
    "add half to integers": (lambda x: x + 0.5, WHOLE),
    "add truth values": (lambda x: (x > 0) + (x < 3), WHOLE),
    "sub": (torch.sub, A, B),
    "sub alpha": (lambda x, y: torch.sub(x, y, alpha=0.5), A, B),
    "rsub": (lambda x: 1 - x, EDGES),
    "rsub alpha": (lambda x: torch.rsub(x, 3.0, alpha=2.0), EDGES),
    "mul": (torch.mul, A, B),
    "mul integers by half": (lambda x: x * 0.5, WHOLE),
    "mul by truth values": (lambda x, y: x * (y > 0), A, B),
    "mul truth values": (lambda x: (x > 0) * (x < 3), WHOLE),
    "div": (torch.div, A, B),
    "div integers": (lambda x: x / 2, WHOLE),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), A, B),
    "div floor integers": (lambda x: torch.div(x, -3, rounding_mode="floor"), WHOLE),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), A, B),
    "div trunc integers": (lambda x: torch.div(x, -3, rounding_mode="trunc"), WHOLE),
    "floor_divide": (lambda x: x // 0.75, EDGES),
    "numbers": (
        lambda x: tuple(_with_half(name, x) for name in ("add", "sub", "mul", "div", "le", "ge", "eq", "ne")),
        EDGES,
    ),
    "remainder": (torch.remainder, A, B),
    "remainder by 1": (lambda x: x % 1, EDGES),
    "remainder integers": (lambda x: x % -3, WHOLE),
    "remainder by a tensor of integers": (torch.remainder, WHOLE, 7 - 2 * torch.arange(9)),
    "comparisons": (lambda x, y: (x == y, x < y, x <= y, x > y, x >= y), A, B),
    "ne": (torch.ne, A, B),
    "compare integers with half": (lambda x: x > 0.5, WHOLE),
    "ne of integers": (lambda x: x != 2, WHOLE),
    "is itself": (lambda x: x == x, EDGES),
    "is not itself": (lambda x: x != x, EDGES),
    "is at least itself": (lambda x: torch.where(x >= x, x, 0.0), EDGES),
    "isfinite": (torch.isfinite, EDGES),
    "log1p": (torch.log1p, torch.cat([SMALL, -SMALL, EDGES])),
    "relu": (F.relu, EDGES),
    "elu": (F.elu, EDGES),
    "hardtanh": (F.hardtanh, EDGES),
    "maximum": (torch.maximum, A, B),
    "minimum": (torch.minimum, A, B),
    "clamp": (lambda x: (x.clamp(-1, 0.5), x.clamp(min=-1.0), x.clamp(max=0.5)), EDGES),
    "clamp to odd bounds": (lambda x: (x.clamp(NAN, 1.0), x.clamp(2.0, 1.0)), EDGES),
    "clamp integers": (lambda x: (x.clamp(min=-1), x.clamp(max=1), x.clamp(min=0.5)), WHOLE),
    "clamp to tensor": (lambda x, y: torch.clamp(x, min=y), A, B),
    "clamp between tensors": (lambda x, y: torch.clamp(x, min=y, max=y + 1), A, B),
    "amax": (lambda x: x.amax(1), GAPPED),
    "amin": (lambda x: x.amin((0, 2), keepdim=True), GAPPED),
    "extremes of all": (lambda x: (x.max(), x.min()), GAPPED),
    "extremes of integers": (lambda x: (x.amax(), x.min(), torch.maximum(x, -x)), WHOLE),
    "logsumexp": (lambda x: x.logsumexp(-1), X),
    "full": (
        lambda x: (torch.full((8,), 2.5) + x, torch.full((8,), NAN) + x, torch.full((8, 8), -INF).triu(1) + x),
        X[0, 0],
    ),
    "cumsum": (lambda x: x.cumsum(1), GAPPED),
    "cumsum of whole numbers": (lambda x: (x.cumsum(0), (x > 0).cumsum(0)), WHOLE),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=3, mode="linear"), X),
    "interpolate down": (lambda x: F.interpolate(x, scale_factor=0.25, mode="linear"), X),
    "lstm": (Lstm(batch_first=True), X),
    "lstm both ways": (Lstm(batch_first=True, bidirectional=True), X),
    "lstm of layers": (Lstm(num_layers=2, bidirectional=True), X),
    "lstm without bias": (Lstm(bias=False), X),
    "lstm of NaN": (Lstm(batch_first=True, bidirectional=True), GAPPED),
}

# Absolute, beside 3e-7 of the value: float32 has 6e-8 of numbers near 1. An LSTM sums tens of products at each of six
# to eight steps; log1p is for numbers far below 1.
TOLERANCE = {"log1p": 0.0, **{name: 1e-6 for name in CASES if name.startswith("lstm")}}


def _case(name):
    function, *tensors = CASES[name]
    return function if isinstance(function, nn.Module) else Of(function), dict(zip("xy", tensors, strict=False))


_seen: dict[str, set[str]] = {}  # case -> the operators that were converted for it


@cache
def _exported(name):
    return export_program(*_case(name))


def _exact(module, inputs):
    """Run the module in float64."""
    double = BACKENDS["eager-float64"]
    return double.load(double.export(module, inputs)).run(inputs)


def _agree(found, expected, tolerance=3e-7):
    assert list(found) == list(expected)
    for name, value in found.items():
        wanted = expected[name]
        assert value.shape == wanted.shape
        assert value.dtype.kind == wanted.dtype.kind
        np.testing.assert_allclose(value, wanted, rtol=3e-7, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_torch(name, run):
    module, inputs = _case(name)
    _seen[name] = used = set()

    def observer(node, value, _builder):
        used.add(node.target.__name__)
        return value

    found = run(_exported(name), inputs, observer=observer)
    _agree(found, _exact(module, inputs), TOLERANCE.get(name, 3e-7))


def test_every_converter_of_ours_was_in_a_case():
    if len(_seen) < len(CASES):
        pytest.skip("not all of the cases ran")
    assert set(CONVERTERS) - set(INDEXING) - set().union(*_seen.values()) == set()


# What TVM 0.27 makes of them by itself: once one of these fails, our converter for it can go.
ALONE = ("add alpha", "ne", "log1p", "relu", "hardtanh", "maximum", "clamp", "clamp to tensor", "extremes of all")


@pytest.mark.parametrize("name", [*ALONE, "add half to integers", "remainder", "is not itself"])
def test_tvm_alone_goes_wrong_without_a_word(name, run_bare):
    module, inputs = _case(name)
    found = {"output": run_bare(_exported(name), inputs)[0]}
    with pytest.raises(AssertionError):
        _agree(found, _exact(module, inputs), TOLERANCE.get(name, 3e-7))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("clamp integers", "Cannot convert infinity to BigInt"),
        ("interpolate", "Cannot convert infinity to BigInt"),
        ("amax", "amax.default"),
        ("full", "PrimType"),
        ("isfinite", "kDLFloat"),
        ("div floor integers", "same datatype for both operands"),
    ],
)
def test_tvm_alone_has_no_converter(name, error, run_bare):
    with pytest.raises(Exception, match=error):
        run_bare(_exported(name), _case(name)[1])


def test_an_lstm_is_a_kernel_and_not_unrolled():
    from kokoro_nb.backends.tvm.importer import relax_module

    lstm = Lstm(batch_first=True, bidirectional=True)
    short, long = (relax_module(export_program(lstm, {"x": torch.zeros(1, steps, 8)})) for steps in (2, 50))
    assert len(long.functions) == len(short.functions)
    assert len(long["main"].body.blocks[0].bindings) == len(short["main"].body.blocks[0].bindings) < 60


def test_an_lstm_with_a_projection_is_refused(tmp_path):
    from kokoro_nb.backends.tvm import Tvm

    failure = Tvm("tvm").export(Lstm(proj_size=3), {"x": X}, tmp_path)
    assert (failure.rung, failure.error) == ("lowered", "NotImplementedError")
    assert "leave its proj_size at 0" in failure.message
