"""Operators written in another form that is equal in exact arithmetic, and operators that are kept in float32."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import isqrt, pi, prod, sqrt
from typing import Any

from kokoro_nb.backends.exported import Exported
from kokoro_nb.faults.planting import program_copy, with_program
from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.verdicts import VIEWS
from kokoro_nb.traces.operators import Operator

Write = Callable[[FaultSite], Any]


@dataclass(frozen=True)
class OtherForm:
    """Another form of an operator.

    Attributes
    ----------
    name, statement : str
        A short name, and what is computed in its place.
    write : callable
        Adds the other form behind the operator and returns the node with its result; None where it does not apply.
    """

    name: str
    statement: str
    write: Write


def in_other_form(exported: Exported, names: Collection[str], form: OtherForm) -> Exported | None:
    """Return a program in which the operators `names` are written in another form; None where none could be."""
    specification = exported.specification
    healthy = specification.named_by or specification
    program = program_copy(specification.program)
    nodes = {node.name: node for node in program.graph.nodes}
    results = specification.results(specification.program.graph.nodes)
    changed = False
    for name in names:
        node = nodes[results[name].name]
        site = FaultSite(program, node, name)
        result = form.write(site)
        if result is not None:
            site.give(result)
            program.graph.erase_node(node)
            changed = True
    return with_program(exported, program, healthy) if changed else None


def float32_region(operators: Collection[Operator], names: Collection[str]) -> tuple[str, ...]:
    """Return operators with those that read their results, and all that lies between any of them, in execution order.

    What is kept in float32 has to be read in float32, directly or through views, and has to stay it on the way from one
    to the next: a copy between them in float16 would round again.
    """
    kept, passing = set(names), set(names)
    for operator in operators:
        if passing.intersection(operator.inputs):
            kept.add(operator.name)
            if operator.kind in VIEWS:
                passing.add(operator.name)
    after, before = set(kept), set(kept)
    for operator in operators:
        if after.intersection(operator.inputs):
            after.add(operator.name)
    for operator in reversed([*operators]):
        if operator.name in before:
            before.update(operator.inputs)
    return tuple(operator.name for operator in operators if operator.name in after & before)


def kept_in_float32(exported: Exported, names: Collection[str], blocks: bool) -> Exported | None:
    """Return a program in which the float16 operators `names` compute in float32; None where there are none.

    What one of them gives to another stays float32 on the way; what others read is rounded to float16. With `blocks`
    running sums are computed in blocks.
    """
    import torch

    specification = exported.specification
    healthy = specification.named_by or specification
    program = program_copy(specification.program)
    nodes = {node.name: node for node in program.graph.nodes}
    results = specification.results(specification.program.graph.nodes)
    wide: dict[Any, Any] = {}
    cast = torch.ops.aten._to_copy.default
    chosen = {nodes[results[name].name] for name in names if name in results}
    for node in [one for one in program.graph.nodes if one in chosen]:
        site = FaultSite(program, node, node.name)
        if node.meta["val"].dtype != torch.float16 or site.is_element:
            continue

        def widened(argument: Any, site: FaultSite = site) -> Any:
            if argument in wide:
                return wide[argument]
            if argument.meta["val"].dtype != torch.float16:
                return argument
            return site.emit(cast, argument, ahead=True, dtype=torch.float32)

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), widened)
        kwargs = {key: torch.float32 if value is torch.float16 else value for key, value in kwargs.items()}
        if blocks and site.op == "aten.cumsum.default":
            result = _in_blocks(site, args[0], args[1])
        else:
            result = site.emit(node.target, *args, **kwargs)
        rounded = site.emit(cast, result, dtype=torch.float16)
        site.give(rounded)
        program.graph.erase_node(node)
        wide[rounded] = result
    if not wide:
        return None
    for rounded in wide:
        if not rounded.users:
            program.graph.erase_node(rounded)
    return with_program(exported, program, healthy)


def _aten(site: FaultSite) -> Callable[..., Any]:
    """Return what adds an operator of PyTorch's by its name: ``add("mul.Tensor", x, y)``."""
    import torch

    def add(name: str, *args: Any, **kwargs: Any) -> Any:
        packet, _, overload = name.partition(".")
        return site.emit(getattr(getattr(torch.ops.aten, packet), overload or "default"), *args, **kwargs)

    return add


def _normed(site: FaultSite, x: Any, axes: list[int], eps: float) -> Any:
    add = _aten(site)
    centred = add("sub.Tensor", x, add("mean.dim", x, axes, True))
    variance = add("mean.dim", add("mul.Tensor", centred, centred), axes, True)
    return add("mul.Tensor", centred, add("rsqrt", add("add.Tensor", variance, eps)))


def _affine(site: FaultSite, x: Any, shape: list[int]) -> Any:
    add, given = _aten(site), site.arguments
    for argument, operator in (("weight", "mul.Tensor"), ("bias", "add.Tensor")):
        if given[argument] is not None:
            x = add(operator, x, add("view", given[argument], shape))
    return x


def _instance_norm(site: FaultSite) -> Any:
    given = site.arguments
    if not given["use_input_stats"]:
        return None
    axes = list(range(2, site.value.ndim))
    return _affine(site, _normed(site, given["input"], axes, given["eps"]), [1, -1, *[1] * len(axes)])


def _group_norm(site: FaultSite) -> Any:
    given, shape = site.arguments, list(site.value.shape)
    grouped = _aten(site)(
        "reshape", given["input"], [shape[0], given["num_groups"], prod(shape[1:]) // given["num_groups"]]
    )
    normed = _aten(site)("reshape", _normed(site, grouped, [2], given["eps"]), shape)
    return _affine(site, normed, [1, -1, *[1] * (len(shape) - 2)])


def _layer_norm(site: FaultSite) -> Any:
    given = site.arguments
    size = list(given["normalized_shape"])
    axes = list(range(site.value.ndim - len(size), site.value.ndim))
    return _affine(site, _normed(site, given["input"], axes, given["eps"]), size)


def _variance(site: FaultSite) -> Any:
    given, add = site.arguments, _aten(site)
    x = given["self"]
    axes = list(given["dim"]) if given["dim"] else list(range(x.meta["val"].ndim))
    count = prod(x.meta["val"].shape[axis] for axis in axes)
    centred = add("sub.Tensor", x, add("mean.dim", x, axes, True))
    correction = 1 if given["correction"] is None else given["correction"]
    total = add("sum.dim_IntList", add("mul.Tensor", centred, centred), axes, given["keepdim"])
    return add("div.Tensor", total, float(count - correction))


def _atan2(site: FaultSite) -> Any:
    y, x = site.arguments["self"], site.arguments["other"]
    add = _aten(site)
    larger = add("maximum", add("abs", y), add("abs", x))
    larger = add("where.self", add("eq.Scalar", larger, 0), add("ones_like", larger), larger)
    angle = add("atan2", add("div.Tensor", y, larger), add("div.Tensor", x, larger))
    cut = add("logical_and", add("eq.Scalar", y, 0), add("lt.Scalar", x, 0))
    zero = add("logical_and", add("eq.Scalar", y, 0), add("ge.Scalar", x, 0))
    right = add("where.self", cut, add("full_like", angle, pi), angle)
    return add("where.self", zero, add("zeros_like", angle), right)


def _remainder(site: FaultSite) -> Any:
    x, divisor = site.arguments["self"], site.arguments["other"]
    add = _aten(site)
    if site.op == "aten.remainder.Scalar" and divisor == 1:
        return add("sub.Tensor", x, add("floor", x))
    whole = add("floor", add("div.Tensor", x, divisor))
    return add("sub.Tensor", x, add("mul.Tensor", whole, divisor))


def _floor_division(site: FaultSite) -> Any:
    given, add = site.arguments, _aten(site)
    if given.get("rounding_mode", "floor") != "floor":
        return None
    x, divisor = given["self"], given["other"]
    overload = "Tensor" if hasattr(divisor, "meta") else "Scalar"
    whole = add("sub.Tensor", x, add(f"fmod.{overload}", x, divisor))
    return add("round", add(f"div.{overload}", whole, divisor))


def _gelu(site: FaultSite) -> Any:
    x, add = site.arguments["self"], _aten(site)
    if site.arguments["approximate"] == "tanh":
        cube = add("mul.Tensor", add("mul.Tensor", x, x), x)
        inner = add("mul.Tensor", add("add.Tensor", x, add("mul.Tensor", cube, 0.044715)), sqrt(2 / pi))
        gate = add("add.Tensor", add("tanh", inner), 1.0)
    else:
        gate = add("add.Tensor", add("erf", add("mul.Tensor", x, sqrt(0.5))), 1.0)
    return add("mul.Tensor", add("mul.Tensor", x, 0.5), gate)


def _reciprocal(site: FaultSite) -> Any:
    x, add = site.arguments["self"], _aten(site)
    return add("div.Tensor", add("add.Tensor", add("sub.Tensor", x, x), 1.0), x)


def _rsqrt(site: FaultSite) -> Any:
    x, add = site.arguments["self"], _aten(site)
    return add("div.Tensor", add("add.Tensor", add("sub.Tensor", x, x), 1.0), add("sqrt", x))


def _log_sigmoid(site: FaultSite) -> Any:
    x, add = site.arguments["self"], _aten(site)
    return add("neg", add("softplus", add("neg", x)))


def _running_sum(site: FaultSite) -> Any:
    if not site.value.ndim:
        return None
    given = site.arguments
    return _in_blocks(site, given["self"], given["dim"])


def _in_blocks(site: FaultSite, x: Any, dim: int) -> Any:
    """Add running sums within blocks, and the sum of all blocks before each."""
    add, shape = _aten(site), list(x.meta["val"].shape)
    axis = dim % len(shape)
    length = shape[axis]
    size = max(1, isqrt(length))
    count = -(-length // size)
    if length < count * size:
        last = [*[0, 0] * (len(shape) - 1 - axis), 0, count * size - length]
        x = add("constant_pad_nd", x, last)
    blocks = add("reshape", x, [*shape[:axis], count, size, *shape[axis + 1 :]])
    inside = add("cumsum", blocks, axis + 1)
    totals = add("slice.Tensor", inside, axis + 1, size - 1, size)
    before = add("sub.Tensor", add("cumsum", totals, axis), totals)
    whole = add("reshape", add("add.Tensor", inside, before), [*shape[:axis], count * size, *shape[axis + 1 :]])
    return add("slice.Tensor", whole, axis, 0, length)


_TWO_PASS = "the mean is taken away first, then the squares of what is left are averaged"
FORMS: dict[str, OtherForm] = {
    "instance_norm": OtherForm("two-pass norm", _TWO_PASS, _instance_norm),
    "group_norm": OtherForm("two-pass norm", _TWO_PASS, _group_norm),
    "layer_norm": OtherForm("two-pass norm", _TWO_PASS, _layer_norm),
    "var": OtherForm("two-pass variance", _TWO_PASS, _variance),
    "atan2": OtherForm(
        "atan2 with its cut set",
        "both are divided by the larger; pi is put in where y is 0 and x below it, 0 where x is not",
        _atan2,
    ),
    "remainder": OtherForm("x - floor(x)", "the remainder is x less the whole multiples of the divisor", _remainder),
    "div": OtherForm("the remainder first", "what fmod leaves over is taken away, then divided", _floor_division),
    "floor_divide": OtherForm(
        "the remainder first", "what fmod leaves over is taken away, then divided", _floor_division
    ),
    "gelu": OtherForm("GELU written out", "the formula stands in the place of the operator", _gelu),
    "reciprocal": OtherForm("a quotient", "1 is a tensor that is divided by x", _reciprocal),
    "rsqrt": OtherForm("a quotient by the root", "1 is a tensor that is divided by the root of x", _rsqrt),
    "cumsum": OtherForm("a running sum in blocks", "running sums of blocks, and the sums of the blocks", _running_sum),
    "log_sigmoid": OtherForm("softplus", "the negative softplus of the opposite", _log_sigmoid),
}
