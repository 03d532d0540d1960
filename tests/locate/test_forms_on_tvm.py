"""Other forms: what a stock tool gets wrong or refuses comes out right, on the tool itself."""

from math import inf, nan

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.tensor_forms import FORMS, forms_of, in_other_form
from tests.backends.small import Of

X = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(3))
NUMBERS = torch.tensor([-2.0, -0.3, 0.0, nan, 0.4, 3.0])
WHOLE = torch.arange(-4, 5)
PLACES = torch.tensor([3, 0])
SLOW = pytest.mark.slow  # what the tool gets wrong changes with its version alone


def _chosen(*tables):
    """Yield kind, form, program, inputs, and whether the tool is asked without the form, too; the first is quick."""
    for programs, inputs in tables:
        for (kind, form), functions in programs.items():
            yield pytest.param(kind, form, functions[0], inputs, False, id=f"{kind}, {form}")
            for number, function in enumerate(functions):
                yield pytest.param(kind, form, function, inputs, True, id=f"{kind}, {form}, {number}", marks=SLOW)


def _outcome(exported, inputs, name):
    """Return the output of a runtime, or None where it refuses the program."""
    runtime = backend(name)
    made = runtime.export(exported, inputs)
    try:
        return None if isinstance(made, Failure) else next(iter(runtime.load(made).run(inputs).values()))
    except Exception:
        return None


def _right(given, exported, inputs, module):
    if given is None:
        return False
    expected = exported.specification.run(inputs, double=True)["output"]
    with torch.no_grad():
        eager = module(*inputs.values()).numpy()
    if given.shape != expected.shape or given.dtype.kind != eager.dtype.kind:
        return False
    rtol = {2: 2e-3, 4: 2e-5, 8: 1e-12}[eager.itemsize] if eager.dtype.kind == "f" else 0
    near = [np.allclose(given, one, rtol=rtol, atol=1e-30, equal_nan=True) for one in (expected, eager)]
    return any(near) and (eager.dtype.kind != "f" or given.dtype == eager.dtype)


def _cured(kind, form, function, inputs, name="tvm-unfused", checked=True):
    module = Of(function).eval()
    exported = export_program(module, inputs)
    names = [one.name for one in exported.specification.operators if one.kind == kind]
    assert names
    assert not checked or not _right(_outcome(exported, inputs, name), exported, inputs, module), "right without"
    (chosen,) = (one for one in forms_of(kind) if one.name == form)
    changed = in_other_form(exported, names, chosen)
    assert changed is not None
    assert _right(_outcome(changed, inputs, name), exported, inputs, module)


ONE = {
    ("add", "PyTorch's decomposition"): [lambda x: torch.add(x, x.sin(), alpha=3.0)],
    ("amax", "max over one axis"): [lambda x: x.amax((0, 2), keepdim=True)],
    ("logsumexp", "parts in other forms"): [lambda x: x.logsumexp((0, 1)), lambda x: (x - inf).logsumexp(1)],
    ("logaddexp", "parts in other forms"): [lambda x: torch.logaddexp(3 * x, x.flip(1))],
    ("isfinite", "below infinity"): [lambda x: torch.isfinite(1 / (x > 0).float())],
    ("add", "masks by logic"): [lambda x: (x > 1) + (x < 0)],
    ("mul", "masks by logic"): [lambda x: (x < 1) * (x > 0)],
    ("mul", "PyTorch's decomposition"): [lambda x: (x > 0) * 0.25],
    ("cumsum", "one dtype first"): [lambda x: (x > 0).cumsum(2)],
    ("mul", "x - x"): [lambda x: x + (1 / (x > 0).float()) * 0],
    ("full", "an infinity computed"): [
        lambda x: x + torch.full((5, 4), -inf).triu(2),
        lambda x: torch.minimum(x, torch.full((4,), inf)),
    ],
    ("select", "indices from the start"): [lambda x: x.tanh()[:, -2]],
    ("upsample_linear1d", "parts in other forms"): [
        lambda x: F.interpolate(x, scale_factor=1.5, mode="linear"),
        lambda x: F.interpolate(x, size=7, mode="linear", align_corners=True),
    ],
    ("softplus", "log1p of small numbers"): [lambda x: F.softplus(x - 18), lambda x: F.softplus(x - 9, beta=2.0)],
    ("log1p", "log1p of small numbers"): [lambda x: torch.log1p(1e-6 * x)],
    ("remainder", "fmod"): [lambda x: torch.remainder(3000 * x, -0.7)],
}


KEPT = {"clamp": lambda x: x.clamp(-1.0, 2.0), "relu": F.relu, "min": lambda x: x.min() + x}
NAN_KEPT = {(kind, "NaN kept"): [function] for kind, function in KEPT.items()}


def test_nan_of_others():
    _cured("elu", "PyTorch's decomposition", F.elu, {"x": NUMBERS})
    _cured("ne", "less or greater", lambda x: x != x, {"x": NUMBERS})
    _cured("ne", "less or greater", lambda x: x != 0.4, {"x": NUMBERS})
    _cured("eq", "isnan asked", lambda x: torch.where(x == x, x + 1, 0.0), {"x": NUMBERS}, "tvm")
    _cured("remainder", "fmod", torch.remainder, {"x": torch.tensor([3.0, -3.0]), "w": torch.tensor([inf, 2.0])})
    zeros = {"x": torch.tensor([-inf, 0.3, -0.3, 2.0]), "w": torch.tensor([0.1, 0.1, 0.1, 0.0])}
    _cured("div", "the remainder first", lambda x, w: torch.div(x, w, rounding_mode="floor"), zeros)
    _cured("floor_divide", "the remainder first", lambda x: x // -0.2, {"x": zeros["x"]})


INTEGERS = {
    ("add", "PyTorch's decomposition"): [lambda x: x + 1.5],
    ("div", "PyTorch's decomposition"): [lambda x: x / 4, lambda x: x / (x * x).sum()],
    ("clamp", "PyTorch's decomposition"): [lambda x: x.clamp(min=-2)],
    ("floor_divide", "a divisor of the same dtype"): [lambda x: x // 3],
    ("div", "a divisor of the same dtype"): [lambda x: torch.div(x, 3, rounding_mode="trunc")],
    ("cumsum", "one dtype first"): [lambda x: (x.int() * 2**28).cumsum(0)],
}


def _written(x, place, values):
    found = x.clone()
    found[place] = values
    return found


INDEXED = {
    ("index", "one linear index"): [
        lambda x, w: x.cos()[:, w - 5],
        lambda x, w: x.cos()[w % 2, w - 4],
        lambda x, w: x.cos()[:, w, w - 4],
        lambda x, w: x.cos()[w % 2, :, w],
    ],
    ("index_put", "one linear index"): [
        lambda x, w: x.index_put((w % 2, w), -x[0, :2]),
        lambda x, w: _written(x, (slice(None), w - 5), x[:, :2] * 2),
        lambda x, w: x.index_put((w % 2,), x[:2], accumulate=True),
    ],
    ("index_put", "where in place of a mask"): [lambda x, w: x.index_put((x > 0,), torch.zeros(()))],
    ("index_add", "parts in other forms"): [lambda x, w: x.index_add(0, w % 1, x.exp(), alpha=2)],
    ("index_fill", "parts in other forms"): [lambda x, w: x.index_fill(1, w, -1.0)],
    ("scatter_add", "one linear index"): [lambda x, w: x.scatter_add(1, (0 * w)[None, :, None].repeat(2, 1, 4), x)],
}


@pytest.mark.parametrize(
    ("kind", "form", "function", "inputs", "checked"),
    [*_chosen((ONE, {"x": X}), (NAN_KEPT, {"x": NUMBERS}), (INTEGERS, {"x": WHOLE}), (INDEXED, {"x": X, "w": PLACES}))],
)
def test_what_the_tool_gets_wrong_or_refuses_comes_out_right(kind, form, function, inputs, checked):
    _cured(kind, form, function, inputs, checked=checked)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_products_keep_their_dtype(dtype):
    _cured("matmul", "a product in its dtype", lambda x: x @ x.transpose(1, 2), {"x": X.to(dtype)})
    _cured("linear", "a product in its dtype", lambda x: F.linear(x, x[0], x[0, :, 0]), {"x": X.to(dtype)})


def test_long_sums_are_added_in_blocks():
    _cured("sum", "sums in blocks", lambda x: x.sum(-1), {"x": torch.full((2, 2**19 + 5), 0.1)})
    _cured("mean", "sums in blocks", lambda x: x.mean((0, 1)), {"x": torch.full((2, 2**19), 0.1)})
    _cured("rms_norm", "RMS in blocks", lambda x: F.rms_norm(x, (2**18,)), {"x": torch.full((2, 2**18), 0.1)})


@pytest.mark.parametrize(
    ("kind", "form", "function"),
    [
        ("where", "where of tensors", lambda x: torch.where(x > 0, x, 0.25)),
        ("__and__", "masks by logic", lambda x: x * ((x > 0) & (x < 1)).float()),
        ("multiply", "PyTorch's decomposition", lambda x: torch.multiply(x, 0.5)),
        ("new_ones", "PyTorch's decomposition", lambda x: x + x.new_ones(4)),
    ],
)
def test_what_coremltools_refuses(kind, form, function):
    assert _outcome(export_program(Of(function).eval(), {"x": X}), {"x": X}, "coreml-reference-float32") is None
    _cured(kind, form, function, {"x": X}, "coreml-reference-float32")


def test_what_onnx_runtime_refuses():
    _cured("relu", "PyTorch's decomposition", F.relu, {"x": WHOLE}, "onnxruntime")


def test_a_form_that_does_not_apply_changes_nothing():
    exported = export_program(Of(lambda x: (x + 1).clamp(0.0, 1.0)[:, 1]).eval(), {"x": X})
    for kind, form in [(":add", form) for form in FORMS["add"]] + [(":select", form) for form in FORMS["select"]]:
        assert in_other_form(exported, [kind], form) is None


def test_bisection_knows_the_arguments_that_a_mechanism_is_about():
    exported = export_program(Of(lambda x: torch.sub(x.tanh(), x, alpha=3)), {"x": X})
    found = diagnose(exported, {"x": X}, "tvm-unfused", method="bisection")
    assert found.first.mechanism.statement == "sub computed as one whose alpha is 1, not 3"
