"""How far rounding can take one node from what is right, elementwise.

Five kinds of operators: those that move values and round nothing; those of IEEE arithmetic, which round once; sums of
products, bounded through the sum of the absolute products (Higham, Accuracy and Stability of Numerical Algorithms,
section 3.1, with the square root of the length in place of the length for random rounding, Higham and Mary 2019); sums,
norms and interpolations, by `kokoro_nb.locate.rounding_families`, which add equal terms in order; and functions of
several steps, by what rounding does to them on these inputs.
"""

from typing import Any

import numpy as np
import torch

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, axes_of, computed
from kokoro_nb.inspection.value_types import Several, Value
from kokoro_nb.locate.rounding_families import FAMILIES, Call, by_channel

ROUNDINGS = 16  # how many times the measured effect of rounding is allowed: one draw of it may be a small one
UNITS = 4  # units in the last place that a library's function may be off
RATIONAL = 6
"""Unit roundoffs of 1 that tanh and the logistic function may be off, however small their value.

Runtimes clamp them and divide two polynomials, so that the error is one of the function's range: in ONNX Runtime's MLAS
at most 5.5 of tanh and 3.0 of the logistic function, over 18 million floats from -20 to 20.
"""
UNITS_OF_1 = 8  # the same of exp(x) - 1 and log(1 + exp(x)); measured in ONNX Runtime near 0: at most 1.75
SPREAD = 8  # standard deviations of a sum of random roundings
SILENT = 0.01  # of the tensor's peak: a channel below it is measured by that
NARROW = {"bfloat16": (7, -126, 128), "float8_e4m3fn": (3, -6, 9), "float8_e5m2": (2, -14, 16)}
"""Bits behind the point, least exponent of a normal number and first exponent beyond the largest, which NumPy lacks."""
_EXACT = """
Identity Reshape Transpose Slice Gather GatherElements GatherND Concat Split Squeeze Unsqueeze Flatten Expand Tile Where
Pad Max Min Relu Clip Neg Abs Floor Ceil Round Sign Shape Size Constant ConstantOfShape MaxPool GlobalMaxPool ReduceMax
ReduceMin DepthToSpace SpaceToDepth ScatterElements ScatterND Scatter Compress OneHot TopK Trilu ReverseSequence Dropout
SequenceAt ConcatFromSequence SplitToSequence SequenceConstruct SequenceInsert SequenceErase SequenceEmpty Unique
NonZero EyeLike CenterCropPad BitCast OptionalGetElement MaxUnpool
"""
_ONCE = "Add Sub Mul Div Sqrt Cast CastLike"
_FEW = "DequantizeLinear Reciprocal LeakyRelu PRelu ThresholdedRelu Mod"
_POINTWISE = """
Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Sigmoid Softplus Softsign Erf Pow Elu Selu Celu Gelu
HardSigmoid HardSwish Mish Swish Shrink FastGelu QuickGelu BiasGelu
"""
EXACT, ONCE, FEW, POINTWISE = (frozenset(names.split()) for names in (_EXACT, _ONCE, _FEW, _POINTWISE))
PRODUCTS = frozenset(("MatMul", "Gemm", "Conv", "ConvTranspose", "FusedConv", "FusedMatMul", "Einsum"))
SUMS = frozenset(("ReduceSum", "ReduceMean", "CumSum", "AveragePool", "GlobalAveragePool", "Sum", "Mean"))
TIMES_INPUT = frozenset(("Gelu", "BiasGelu", "FastGelu", "QuickGelu", "Mish", "Swish", "HardSwish"))
"""Functions that are the input times a function of it that is right to the rounding of 1."""
REDUCED = {
    **{"ReduceSum": "sum", "ReduceSumSquare": "sum", "ReduceMean": "mean", "GlobalAveragePool": "mean"},
    "ReduceL2": "linalg_vector_norm",
}


def unit(dtype: np.dtype) -> float:
    """Return the unit roundoff in which a node of this type computes: half the spacing at 1.

    A float narrower than 32 bits is computed in float32 and rounded at the end, as ONNX Runtime does on the CPU.
    """
    return 2.0**-53 if dtype == np.float64 else 2.0**-24


def spacing(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the unit in the last place of `dtype` at each of the float64 `values`; at infinity that of the largest."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        digits, lowest, highest = info.nmant, int(info.minexp), int(info.maxexp)
    else:
        digits, lowest, highest = NARROW[dtype.name]
    with np.errstate(invalid="ignore"):
        exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))[1] - 1
    exponents = np.where(values == 0, lowest, exponents)
    return np.ldexp(1.0, np.clip(exponents, lowest, highest - 1) - digits)


def rounding_limits(call: OnnxCall, inputs: Several, exact: Several, output: int, dtype: np.dtype) -> np.ndarray:
    """Return how far from right each element of one output may be.

    Parameters
    ----------
    call : OnnxCall
        The node.
    inputs : sequence of values
        What went into it, in the types of the file.
    exact : sequence of values
        What it gives in float64.
    output : int
        Which output.
    dtype : numpy.dtype
        The float type of that output.

    Returns
    -------
    numpy.ndarray, in a shape that broadcasts to the output's, float64
        In the unit of the output.
    """
    kind, right = call.node.op_type, np.asarray(exact[output], np.float64)
    last = spacing(right, dtype)
    if kind in EXACT:
        return np.zeros_like(right)
    if kind in ONCE:
        return last
    if kind in FEW:
        return UNITS * last
    if kind in POINTWISE:
        clamped = RATIONAL * unit(dtype) if kind in ("Tanh", "Sigmoid") else _reach(call, inputs, right) * unit(dtype)
        return UNITS * last + clamped + ROUNDINGS * _nudged_apart(call, inputs, exact, output, dtype)
    known = _of_family(call, inputs, right, output, unit(dtype))
    if known is not None:
        return last + known
    if kind in PRODUCTS or kind in SUMS:
        absolute = computed(call, [_absolute(value) for value in inputs])
        length = summed_length(call, inputs, right.size)
        return last + gamma(length, unit(dtype), ordered=kind in ("CumSum", "AveragePool")) * np.abs(
            np.asarray(absolute[output], np.float64)
        )
    if kind in ("DFT", "STFT"):
        return last + gamma(right.size, unit(dtype)) * np.full_like(right, float(np.sum(_absolute(inputs[0]))))
    return _measured(call, inputs, exact, output, dtype)


def _of_family(call: OnnxCall, inputs: Several, right: np.ndarray, output: int, u: float) -> np.ndarray | None:
    """Return the bound of the family of PyTorch's operators that a node is of; None if it is of none."""
    found = _roles(call, inputs) if output == 0 else None
    if found is None or not right.size:
        return None
    family, roles = found
    named = {name: torch.tensor(one, dtype=torch.float64) if _is_array(one) else one for name, one in roles.items()}
    target = f"aten.{family}.onnx"  # these families look at its name alone
    return np.asarray(FAMILIES[family](Call(target, named, torch.tensor(right), u)))


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _roles(call: OnnxCall, inputs: Several) -> tuple[str, dict[str, Any]] | None:
    """Return the family of a node and its arguments by the names that PyTorch has for them."""
    kind, x = call.node.op_type, np.asarray(inputs[0], np.float64)
    given = dict(zip(("weight", "bias"), inputs[1:], strict=False))
    if kind in REDUCED:
        axes = axes_of(call, inputs[1] if len(inputs) > 1 else None)
        axes = tuple(range(2, x.ndim)) if kind == "GlobalAveragePool" else axes or tuple(range(x.ndim))
        return REDUCED[kind], {"self": x**2 if kind == "ReduceSumSquare" else x, "dim": axes, "ord": 2}
    if kind in ("Softmax", "LogSoftmax"):
        axis = call.get("axis", -1 if call.opset >= 13 else 1) % x.ndim
        dim = axis if call.opset >= 13 else tuple(range(axis, x.ndim))
        return ("softmax" if kind == "Softmax" else "log_softmax"), {"self": x, "dim": dim}
    if kind == "LayerNormalization":
        eps = call.get("epsilon", 1e-5)
        shape = x.shape[call.get("axis", -1) % x.ndim :]
        return "layer_norm", {"input": x, **given, "normalized_shape": shape, "eps": eps}
    if kind == "InstanceNormalization":
        return "instance_norm", {"input": x, **given, "eps": call.get("epsilon", 1e-5)}
    if kind == "MeanVarianceNormalization" and {*call.get("axes", (0, 2, 3))} == {*range(x.ndim)} - {1}:
        return "batch_norm", {"input": x, "eps": 1e-9}
    if kind == "LpNormalization":
        return "_weight_norm", {"v": x, "g": x.max(axis=call.get("axis", -1))}
    if kind == "Resize" and call.get("mode") == "linear" and x.ndim in (3, 4):
        return f"upsample_{'linear1d' if x.ndim == 3 else 'bilinear2d'}", {"self": x}
    return None


def _reach(call: OnnxCall, inputs: Several, right: np.ndarray) -> float | np.ndarray:
    """Return how many unit roundoffs a function that is written as a difference from 1 may be off, however small it is.

    ``alpha * (exp(x) - 1)`` is right to the rounding of alpha; where all results are small, to theirs.
    """
    kind, known = call.node.op_type, right[np.isfinite(right)]
    if kind in TIMES_INPUT:
        return UNITS_OF_1 * np.abs(np.asarray(inputs[0], np.float64))
    if kind not in ("Elu", "Celu", "Selu", "Softplus") or not known.size:
        return 0.0
    scale = abs(call.get("alpha", 1.0) * call.get("gamma", 1.0))
    return UNITS_OF_1 * float(np.minimum(scale, np.abs(known).max()))


def gamma(length: int, u: float, ordered: bool = False) -> float:
    """Return the relative error of a sum of `length` rounded terms of one sign, in any order.

    The smaller of the certain bound n u / (1 - n u) and of 8 standard deviations of random roundings. A running sum is
    `ordered`: equal steps are rounded the same way each time, and the certain bound alone holds.
    """
    certain = length * u / (1 - length * u) if length * u < 1 else np.inf
    return float(certain if ordered else np.minimum(certain, SPREAD * np.sqrt(length) * u + u))


def summed_length(call: OnnxCall, inputs: Several, results: int) -> int:
    """Return how many terms each of the `results` elements sums."""
    kind = call.node.op_type
    shapes = [() if value is None else np.shape(value) for value in inputs]
    if kind in ("Conv", "FusedConv"):
        return int(np.prod(shapes[1][1:])) + 1
    if kind == "ConvTranspose":
        return int(shapes[1][0] // call.get("group", 1) * np.prod(shapes[1][2:])) + 1
    if kind in ("MatMul", "FusedMatMul"):
        return int(shapes[0][-1])
    if kind == "Gemm":
        return int(shapes[0][0 if call.get("transA", 0) else 1]) + 2
    if kind in ("Sum", "Mean"):
        return len(inputs) + 1
    if kind == "Einsum":
        return int(np.prod([np.prod(shape) for shape in shapes]) ** 0.5) + 1
    if kind == "CumSum":
        return int(shapes[0][int(np.asarray(inputs[1]).reshape(()))])
    if kind == "AveragePool":
        return int(np.prod(call.get("kernel_shape"))) + 1
    return int(np.prod(shapes[0])) // np.maximum(results, 1) + 1  # reductions


def _absolute(value: Value) -> Value:
    wide = np.asarray(value)
    if value is None or isinstance(value, list) or wide.dtype.kind in "biu":
        return value
    return np.abs(wide.astype(np.float64))


def _moved(inputs: Several, step: np.ndarray | float) -> list[Value]:
    """Return the floats among the inputs, each moved by a share of itself."""
    moved: list[Value] = []
    for value in inputs:
        if value is None or isinstance(value, list) or np.asarray(value).dtype.kind in "biuOUS":
            moved.append(value)
        else:
            moved.append(np.asarray(value).astype(np.float64) * (1 + step))
    return moved


def _nudged_apart(call: OnnxCall, inputs: Several, exact: Several, output: int, dtype: np.dtype) -> np.ndarray:
    """Return how far each element goes when the inputs are moved by the unit roundoff, up or down."""
    others = [computed(call, _moved(inputs, step))[output] for step in (unit(dtype), -unit(dtype))]
    return _apart(np.asarray(exact[output], np.float64), *others)


def _apart(right: np.ndarray, *others: Value) -> np.ndarray:
    """Return how far each element goes from right at most; where a shape differs, and what is not finite, is left out.

    Scales and sizes are floats too, and moving them may change a shape.
    """
    apart = np.zeros_like(right)
    for other in (np.asarray(one, np.float64) for one in others):
        if other.shape == right.shape:
            with np.errstate(invalid="ignore"):
                difference = np.abs(other - right)
            apart = np.maximum(apart, np.where(np.isfinite(difference), difference, 0.0))
    return apart


def _measured(call: OnnxCall, inputs: Several, exact: Several, output: int, dtype: np.dtype) -> np.ndarray:
    """Return what rounding does here: the node in float32, and in float64 with the last bits of its inputs changed."""
    right = np.asarray(exact[output], np.float64)
    generator = np.random.default_rng(0)
    narrow = np.float64 if dtype == np.float64 else np.float32
    single = computed(call, inputs, narrow)[output]
    moved: list[Value] = []
    for value in inputs:
        shape = np.shape(value) if value is not None and not isinstance(value, list) else ()
        moved += _moved([value], unit(dtype) * generator.uniform(-1, 1, shape))
    apart = _apart(right, single, computed(call, moved)[output])
    size = np.where(np.isfinite(right), np.abs(right), 0.0)
    peaks = np.maximum(by_channel(size), SILENT * float(size.max(initial=0.0)))
    largest = int(np.max([np.size(x) for x in inputs if x is not None and not isinstance(x, list)], initial=1))
    sums = gamma(largest // int(np.maximum(right.size, 1)), unit(dtype))  # as many terms at least, if it sums
    return (2 * UNITS * unit(dtype) + sums) * peaks + ROUNDINGS * by_channel(apart) + spacing(right, dtype)
