"""Functions of numbers written out, so that what is small, large or not a number comes out right."""

from math import log, pi, sqrt
from typing import Any

from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.forms.extremes import largest
from kokoro_nb.locate.forms.form import OtherForm, Writer, axes_of, is_float

SELU = (1.6732632423543772, 1.0507009873554805)  # its alpha and its scale, as PyTorch has them


def _atan2(site: FaultSite) -> Any:
    y, x = site.arguments["self"], site.arguments["other"]
    add = Writer(site)
    larger = add("maximum", add("abs", y), add("abs", x))
    larger = add("where.self", add("eq.Scalar", larger, 0), add("ones_like", larger), larger)
    angle = add("atan2", add("div.Tensor", y, larger), add("div.Tensor", x, larger))
    cut = add("logical_and", add("eq.Scalar", y, 0), add("lt.Scalar", x, 0))
    zero = add("logical_and", add("eq.Scalar", y, 0), add("ge.Scalar", x, 0))
    right = add("where.self", cut, add("full_like", angle, pi), angle)
    return add("where.self", zero, add("zeros_like", angle), right)


def _gelu(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    if site.arguments["approximate"] == "tanh":
        cube = add("mul.Tensor", add("mul.Tensor", x, x), x)
        inner = add("mul.Tensor", add("add.Tensor", x, add("mul.Tensor", cube, 0.044715)), sqrt(2 / pi))
        gate = add("add.Tensor", add("tanh", inner), 1.0)
    else:
        gate = add("add.Tensor", add("erf", add("mul.Tensor", x, sqrt(0.5))), 1.0)
    return add("mul.Tensor", add("mul.Tensor", x, 0.5), gate)


def _reciprocal(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    return add("div.Tensor", add("add.Tensor", add("sub.Tensor", x, x), 1.0), x)


def _rsqrt(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    return add("div.Tensor", add("add.Tensor", add("sub.Tensor", x, x), 1.0), add("sqrt", x))


def _log_sigmoid(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    return add("neg", add("softplus", add("neg", x)))


def _log1p(site: FaultSite) -> Any:
    return _log_of_more(Writer(site), site.arguments["self"])


def _log_of_more(add: Writer, x: Any) -> Any:
    """Add log(1 + x) with the rounding of 1 + x divided out; where 1 + x is 1 it is x (Kahan)."""
    more = add("add.Tensor", x, 1.0)
    whole = add("log", more)
    near = add("div.Tensor", add("mul.Tensor", whole, x), add("sub.Tensor", more, 1.0))
    near = add.where(add("eq.Scalar", more, 1), x, near)
    return add.where(add("lt.Scalar", add("abs", x), 0.5), near, whole)


def _softplus(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    return _soft(add, given["self"], given["beta"], given["threshold"])


def _soft(add: Writer, x: Any, beta: float, threshold: float) -> Any:
    scaled = x if beta == 1 else add("mul.Tensor", x, beta)
    low = _log_of_more(add, add("exp", scaled))
    low = low if beta == 1 else add("div.Tensor", low, beta)
    return add.where(add("gt.Scalar", scaled, threshold), x, low)


def _log_gate(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    low = add("neg", _log_of_more(add, add("exp", add("neg", add("abs", x)))))
    return add.where(add("lt.Scalar", x, 0), add("add.Tensor", low, x), low)


def _expm1(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    return add("mul.Tensor", add("tanh", add("mul.Tensor", x, 0.5)), add("add.Tensor", add("exp", x), 1.0))


def _elu(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    x, alpha, scale, inward = given["self"], given.get("alpha", 1.0), given.get("scale", 1), given.get("input_scale", 1)
    if "selu" in site.op:
        alpha, scale = SELU
    if "celu" in site.op:
        inward = 1 / alpha
    low = add("sub.Tensor", add("exp", add("mul.Tensor", x, inward)), 1.0)
    high = x if scale == 1 else add("mul.Tensor", x, scale)
    return add.where(add("gt.Scalar", x, 0), high, add("mul.Tensor", low, alpha * scale))


def _logsumexp(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    x = given["self"]
    axes = axes_of(x, given["dim"])
    top = largest(add, x, axes, True)
    top = add.where(add("isinf", top), 0, top)
    total = add("sum.dim_IntList", add("exp", add("sub.Tensor", x, top)), axes, True)
    return add("reshape", add("add.Tensor", add("log", total), top), list(site.value.shape))


def _logaddexp(site: FaultSite) -> Any:
    a, b, add = site.arguments["self"], site.arguments["other"], Writer(site)
    top = add.where(add("gt.Tensor", a, b), a, b)
    apart = add("neg", add("abs", add("sub.Tensor", a, b)))
    found = add("add.Tensor", top, _log_of_more(add, add("exp", apart)))
    return add.where(add("eq.Tensor", a, b), add("add.Tensor", a, log(2)), found)


def _isfinite(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    return add("lt.Scalar", add("abs", x), float("inf")) if is_float(x) else None


_SOFTPLUS = OtherForm("softplus", "the negative softplus of the opposite", _log_sigmoid)
_ELU = OtherForm("ELU written out", "the formula stands in the place of the operator, with all its scales", _elu)
_KAHAN = "the rounding of 1 + x is divided out of its logarithm"
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "atan2": (
        OtherForm(
            "atan2 with its cut set",
            "both are divided by the larger; pi is put in where y is 0 and x below it, 0 where x is not",
            _atan2,
        ),
    ),
    "gelu": (OtherForm("GELU written out", "the formula stands in the place of the operator", _gelu),),
    "reciprocal": (OtherForm("a quotient", "1 is a tensor that is divided by x", _reciprocal),),
    "rsqrt": (OtherForm("a quotient by the root", "1 is a tensor that is divided by the root of x", _rsqrt),),
    "log_sigmoid": (_SOFTPLUS, OtherForm("log1p of small numbers", _KAHAN, _log_gate)),
    "log1p": (OtherForm("log1p of small numbers", _KAHAN, _log1p),),
    "softplus": (OtherForm("log1p of small numbers", _KAHAN, _softplus),),
    "expm1": (OtherForm("expm1 by tanh", "exp(x) - 1 is tanh(x / 2) times exp(x) + 1", _expm1),),
    **dict.fromkeys(("elu", "selu", "celu"), (_ELU,)),
    "logsumexp": (
        OtherForm("logsumexp written out", "the largest is taken away before the exponentials are summed", _logsumexp),
    ),
    "logaddexp": (
        OtherForm("logaddexp written out", "the larger, and log1p of what the other adds to it", _logaddexp),
    ),
    "isfinite": (OtherForm("below infinity", "what is finite is less than infinity in size", _isfinite),),
}
