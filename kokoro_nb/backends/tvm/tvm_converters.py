"""Our own converters from PyTorch's operators to Relax: for those that TVM's importer lacks, or gets wrong.

It gets wrong, without a word: NaN in clamps, maxima and comparisons, `alpha`, an integer with a number that is none,
remainders by infinity, small logarithms, indices that count from the end or are apart. The tests show each of them.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from kokoro_nb.backends.signature import dtype_name
from kokoro_nb.backends.tvm import arithmetic, indexing, kernels
from kokoro_nb.backends.tvm.calls import GraphCall

Converter = Callable[[GraphCall], Any]


def _binary(name: str, between_truths: str | None = None) -> Converter:
    """Convert an operator of two tensors or numbers, with the dtypes and the `alpha` of PyTorch.

    Parameters
    ----------
    name : str
        Relax's operator.
    between_truths : str, optional
        The one that stands for it between truth values.
    """

    def convert(call: GraphCall) -> Any:
        a, b, *more = call.arguments()
        dtype = _common_dtype(call)
        a, b = call.cast(a, dtype), call.cast(b, dtype)
        if name in ("add", "subtract"):
            b = _scaled(call, b, more[0])
        operator = between_truths if between_truths and dtype == "bool" else name
        return call.emit(getattr(call.op, operator)(a, b))

    return convert


def _common_dtype(call: GraphCall) -> str:
    """Return the dtype in which PyTorch computes an operator of two operands."""
    import torch

    return dtype_name(torch.result_type(*call.operands()[:2])) if call.dtype == "bool" else call.dtype


def _scaled(call: GraphCall, x: Any, alpha: float) -> Any:
    return x if alpha == 1 else call.emit(call.op.multiply(x, call.cast(alpha, str(x.ty.dtype.dtype))))


def _compared(name: str) -> Converter:
    """Convert a comparison; one of a tensor with itself asks for NaN, and TVM would simplify it to a constant."""

    def convert(call: GraphCall) -> Any:
        a, b = call.arguments()
        if name in ("equal", "less_equal", "greater_equal") and a is b and "float" in _common_dtype(call):
            return call.emit(call.op.logical_not(call.emit(call.op.isnan(a))))
        return _binary(name)(call)

    return convert


def _not_equal(call: GraphCall) -> Any:
    """Convert `ne` of floats without TVM's own, which finds NaN equal to NaN, even where it is written as not `eq`."""
    a, b = (call.cast(value, _common_dtype(call)) for value in call.arguments())
    if "float" not in _common_dtype(call):
        return call.emit(call.op.not_equal(a, b))
    tests = [call.op.less(a, b), call.op.greater(a, b), call.op.isnan(a), call.op.isnan(b)]
    return reduce(lambda x, y: call.emit(call.op.logical_or(x, y)), map(call.emit, tests))


def _remainder(call: GraphCall) -> Any:
    a, b = (call.cast(value, call.dtype) for value in call.arguments())
    if "float" not in call.dtype:
        return call.emit(call.op.floor_mod(a, b))
    return call.compute(arithmetic.elementwise(arithmetic.remainder, call.shape), a, b)


def _divide(call: GraphCall) -> Any:
    mode = call.arguments()[2]
    a, b = (call.cast(value, call.dtype) for value in call.arguments()[:2])
    if mode is None:
        return call.emit(call.op.divide(a, b))
    if mode == "floor" and "float" not in call.dtype:
        return call.emit(call.op.floor_divide(a, b))
    rounded = arithmetic.floor_divide if mode == "floor" else arithmetic.truncated_divide
    return call.compute(arithmetic.elementwise(rounded, call.shape), a, b)


def _log1p(call: GraphCall) -> Any:
    x = call.cast(call.arguments()[0], call.dtype)
    return call.compute(arithmetic.elementwise(arithmetic.log1p, call.shape), x)


def _larger(call: GraphCall, a: Any, b: Any) -> Any:
    """Return the larger of two tensors, NaN where either is: Relax's `maximum` takes the other one."""
    return _chosen(call, "greater", a, b)


def _smaller(call: GraphCall, a: Any, b: Any) -> Any:
    return _chosen(call, "less", a, b)


def _chosen(call: GraphCall, comparison: str, a: Any, b: Any) -> Any:
    first = call.emit(getattr(call.op, comparison)(a, b))
    if "float" in call.dtype:  # a NaN in b is chosen by itself, as no comparison with it holds
        first = call.emit(call.op.logical_or(first, call.emit(call.op.isnan(a))))
    return call.emit(call.op.where(first, a, b))


def _extreme(choose: Callable[[GraphCall, Any, Any], Any]) -> Converter:
    def convert(call: GraphCall) -> Any:
        a, b = (call.cast(value, call.dtype) for value in call.arguments())
        return choose(call, a, b)

    return convert


def _clamp(call: GraphCall) -> Any:
    x, *bounds = call.arguments()
    x = call.cast(x, call.dtype)
    for bound, choose in zip(bounds, (_larger, _smaller), strict=True):
        if bound is not None:
            x = choose(call, x, call.cast(bound, call.dtype))
    return x


def _relu(call: GraphCall) -> Any:
    return _larger(call, call.arguments()[0], call.constant(0, call.dtype))


def _reduced_extreme(name: str) -> Converter:
    """Convert a maximum or minimum over axes, or over all: NaN where there is one among the numbers."""

    def convert(call: GraphCall) -> Any:
        x, *rest = call.arguments()
        axes, keep = (rest[0] or None, rest[1]) if rest else (None, False)
        found = call.emit(getattr(call.op, name)(x, axes, keep))
        if "float" not in call.dtype:
            return found
        unknown = call.cast(call.emit(call.op.isnan(x)), "int8")
        unknown = call.cast(call.emit(call.op.max(unknown, axes, keep)), "bool")
        return call.emit(call.op.where(unknown, call.constant(float("nan"), call.dtype), found))

    return convert


def _full(call: GraphCall) -> Any:
    size, value = call.arguments()[:2]
    return call.emit(call.op.broadcast_to(call.constant(value, call.dtype), tuple(size)))


def _cumulative_sum(call: GraphCall) -> Any:
    x, axis, *_ = call.arguments()
    return call.emit(call.op.cumsum(call.cast(x, call.dtype), axis))


def _lstm(call: GraphCall) -> Any:
    """Convert the whole of an LSTM, a kernel for each layer and direction: unrolled, it is tens of nodes a step."""
    from tvm import relax

    x, states, weights, biased, layers, _dropout, _train, both, batch_first = call.arguments()
    per = 4 if biased else 2
    if len(weights) != per * layers * (1 + both):
        raise NotImplementedError("An LSTM with a projection is not converted; leave its proj_size at 0.")
    sequence = call.emit(call.op.permute_dims(x, [1, 0, 2])) if batch_first else x
    hidden: list[Any] = []
    cell: list[Any] = []
    for _layer in range(layers):
        outputs: list[Any] = []
        for direction in range(1 + both):
            number = len(hidden)
            start = [call.emit(call.op.take(state, call.constant(number, "int64"), axis=0)) for state in states]
            run = _lstm_direction(call, sequence, weights[per * number : per * (number + 1)], start, direction == 1)
            for kept, one in zip((outputs, hidden, cell), run, strict=True):
                kept.append(one)
        sequence = call.emit(call.op.concat(outputs, axis=2))
    if batch_first:
        sequence = call.emit(call.op.permute_dims(sequence, [1, 0, 2]))
    last = [call.emit(call.op.stack(kept, axis=0)) for kept in (hidden, cell)]
    return call.emit(relax.Tuple([sequence, *last]))


def _lstm_direction(call: GraphCall, x: Any, weights: Sequence[Any], start: Sequence[Any], reverse: bool) -> list[Any]:
    """Return the outputs, the last hidden and the last cell state of one direction of one layer."""
    inward, recurrent = (call.emit(call.op.permute_dims(weight)) for weight in weights[:2])
    gates = call.emit(call.op.matmul(x, inward))
    for bias in weights[2:]:
        gates = call.emit(call.op.add(gates, bias))
    found = call.loops(kernels.lstm_steps(reverse), gates, recurrent, *start)
    return [call.emit(found[i]) for i in range(3)]


_COMPARISONS = {"eq": "equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}

CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(("add.Tensor", "add.Scalar"), _binary("add", "logical_or")),
    **dict.fromkeys(("sub.Tensor", "sub.Scalar"), _binary("subtract")),
    **dict.fromkeys(("mul.Tensor", "mul.Scalar"), _binary("multiply", "logical_and")),
    **dict.fromkeys(("div.Tensor", "div.Scalar"), _binary("divide")),
    "div.Tensor_mode": _divide,
    **dict.fromkeys(("remainder.Tensor", "remainder.Scalar"), _remainder),
    **{f"{name}.{kind}": _compared(ours) for name, ours in _COMPARISONS.items() for kind in ("Tensor", "Scalar")},
    **dict.fromkeys(("ne.Tensor", "ne.Scalar"), _not_equal),
    "log1p.default": _log1p,
    "relu.default": _relu,
    "maximum.default": _extreme(_larger),
    "minimum.default": _extreme(_smaller),
    **dict.fromkeys(("clamp.default", "clamp.Tensor"), _clamp),
    **dict.fromkeys(("amax.default", "max.default"), _reduced_extreme("max")),
    **dict.fromkeys(("amin.default", "min.default"), _reduced_extreme("min")),
    "full.default": _full,
    "cumsum.default": _cumulative_sum,
    "lstm.input": _lstm,
    **indexing.CONVERTERS,
}

# Their kernels are loops, which no schedule can spread over a graphics processor, or call the C library.
FOR_PROCESSORS = ("remainder.Tensor", "remainder.Scalar", "div.Tensor_mode", "index_put.default", "lstm.input")
