"""How far rounding can take one node of ONNX from what is right, elementwise.

Three kinds of operators: those that move values and round nothing; those of IEEE arithmetic, which round once; and all
others, in float32 as `kokoro_nb.locate.rounding_families` has it and rounded to the type of the file once. A node is of
the family of the operator of PyTorch that computes the same; one of none by what rounding does to it on these inputs.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, computed, widened
from kokoro_nb.inspection.value_types import Several
from kokoro_nb.locate.rounding_bound import UNITS, measured, nudged, units
from kokoro_nb.locate.rounding_families import FAMILIES, Call

SPREAD = 8  # standard deviations of a sum of random roundings
PRODUCTS = frozenset(("MatMul", "Gemm", "Conv", "ConvTranspose", "FusedConv", "FusedMatMul", "Einsum"))
SUMS = frozenset(("ReduceSum", "ReduceMean", "CumSum", "AveragePool", "GlobalAveragePool", "Sum", "Mean"))
_FAMILIES = {
    "exact": """
    Identity Reshape Transpose Slice Gather GatherElements GatherND Concat Split Squeeze Unsqueeze Flatten Expand Tile
    Where Pad Max Min Relu Clip Neg Abs Floor Ceil Round Sign Shape Size Constant ConstantOfShape MaxPool GlobalMaxPool
    ReduceMax ReduceMin DepthToSpace SpaceToDepth ScatterElements ScatterND Scatter Compress OneHot TopK Trilu
    ReverseSequence Dropout SequenceAt ConcatFromSequence SplitToSequence SequenceConstruct SequenceInsert SequenceErase
    SequenceEmpty Unique NonZero EyeLike CenterCropPad BitCast OptionalGetElement MaxUnpool
    """,
    "rounded once": "Add Sub Mul Div Sqrt Cast CastLike",
    "rounded a few times": "DequantizeLinear Reciprocal LeakyRelu PRelu ThresholdedRelu Mod",
    "exp": """
    Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Softsign Erf Pow HardSigmoid Shrink
    """,
    "gelu": "Gelu BiasGelu FastGelu QuickGelu Mish Swish HardSwish",
    **{"tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "elu": "Elu Celu Selu"},
    **{"matmul": " ".join(PRODUCTS), "cumsum": "CumSum", "avg_pool1d": "AveragePool"},
    **{"sum": "ReduceSum ReduceSumSquare ReduceL1 Sum", "mean": "ReduceMean GlobalAveragePool Mean"},
    **{"linalg_vector_norm": "ReduceL2", "logsumexp": "ReduceLogSumExp", "_weight_norm": "LpNormalization"},
    **{"softmax": "Softmax", "log_softmax": "LogSoftmax", "upsample_linear1d": "Resize"},
    **{"layer_norm": "LayerNormalization", "instance_norm": "InstanceNormalization"},
    "batch_norm": "MeanVarianceNormalization",
}
ROUNDED = {"exact": 0, "rounded once": 1, "rounded a few times": UNITS}
POINTWISE = ("exp", "gelu", "tanh", "sigmoid", "softplus", "elu")
FAMILY = {operator: family for family, operators in _FAMILIES.items() for operator in operators.split()}
"""How often a node rounds, or the operator of PyTorch of whose family in `kokoro_nb.locate.rounding_families` it is."""


def rounding_limits(
    call: OnnxCall, inputs: Several, exact: Several, output: int, dtype: np.dtype, last: np.ndarray
) -> np.ndarray:
    """Return how far from right each element of one output may be.

    Parameters
    ----------
    call : OnnxCall
        The node.
    inputs : sequence of values
        Its inputs, in the types of the file.
    exact : sequence of values
        What it gives in float64.
    output : int
        Which output.
    dtype : numpy.dtype
        The float type of that output.
    last : numpy.ndarray, of its shape
        The unit in the last place of each of its elements: see `kokoro_nb.locate.rounding_bound.spacing`.

    Returns
    -------
    numpy.ndarray, in a shape that broadcasts to the output's, float64
        In the unit of the output.
    """
    kind, right = call.node.op_type, np.asarray(exact[output], np.float64)
    u = 2.0**-53 if dtype == np.float64 else 2.0**-24  # fewer bits are computed in float32, and rounded at the end
    family = "" if call.get("reduction", "none") in ("add", "mul") else FAMILY.get(kind, "")  # a scatter that sums
    if family in ROUNDED:
        return ROUNDED[family] * last
    filled = output == 0 and right.size and np.size(inputs[0])
    known = _of_family(call, inputs, right, family, u) if family and filled else None
    if known is not None:
        return (UNITS if family in POINTWISE else 1) * last + known  # a library computes in the 16 bits of the file
    if kind in ("DFT", "STFT"):
        return last + np.full_like(right, _summed(right.size, u) * float(np.abs(widened(inputs[0])).sum()))
    narrow = np.float64 if dtype == np.float64 else np.float32
    moved = [*nudged(dict(enumerate(inputs)), u).values()]
    others = [computed(call, inputs, narrow)[output], computed(call, moved)[output]]
    largest = int(np.max([np.size(x) for x in inputs if x is not None and not isinstance(x, list)], initial=1))
    terms = largest // int(np.maximum(right.size, 1))  # at least, if it sums
    return last + units(right, 2 * u + _summed(terms, u) / UNITS) + measured(right, *others)


def _summed(length: int, u: float) -> float:
    """Return the relative error of a sum of `length` terms of one sign, in any order: certain, or 8 deviations."""
    return u * float(np.minimum(length, SPREAD * np.sqrt(length) + 1))


def _of_family(call: OnnxCall, inputs: Several, right: np.ndarray, family: str, u: float) -> np.ndarray | None:
    """Return the bound of the family of PyTorch's operators that a node is of; None if it is of none."""
    roles = _roles(call, inputs)
    if roles is None:
        return None
    if family == "matmul":
        call, inputs = _bare(call, inputs)

    def compute(**named: Any) -> torch.Tensor:
        given = [one.numpy() if isinstance(one, torch.Tensor) else one for one in named.values()]
        wide = all(one.dtype != np.float32 for one in given if isinstance(one, np.ndarray))
        if not wide and call.node.op_type == "Conv" and call.get("group", 1) == 1:
            given[1:] = [one if one is None else one[:1] for one in given[1:]]  # of ones: each channel gives the same
        return _tensor(np.asarray(computed(call, given, np.float64 if wide else np.float32)[0], np.float64))

    named = {str(place): _tensor(one) for place, one in enumerate(inputs)}
    roles = {name: _tensor(one) for name, one in roles.items()}
    flipped = (roles["dim"],) if family == "cumsum" and call.get("reverse", 0) else ()
    found = FAMILIES[family](Call(compute, named, _tensor(np.flip(right, flipped)), u, roles))
    return None if found is None else np.flip(found.numpy(), flipped)


def _tensor(value: Any) -> Any:
    """Return floats as a tensor of float64, not copied where they are an array of it already; others as they are."""
    wide = widened(value)
    floats = isinstance(wide, np.ndarray) and wide.dtype.kind == "f"
    return torch.from_numpy(np.require(wide, requirements=("C", "W"))) if floats else value


def _bare(call: OnnxCall, inputs: Several) -> tuple[OnnxCall, Several]:
    """Return a product without the function of its result, and with its inputs multiplied by `alpha` and `beta`."""
    from onnx import helper

    factors = (call.get("alpha", 1.0), 1.0, call.get("beta", 1.0), 1.0)
    if call.node.op_type not in ("Gemm", "FusedMatMul", "FusedConv"):
        return call, inputs
    own = ("alpha", "beta", "activation", "activation_params")
    kept = {name: one for name, one in call.attributes.items() if name not in own}
    node = helper.make_node(call.node.op_type, call.node.input, call.node.output, domain=call.node.domain, **kept)
    scaled = [x if x is None else widened(x) * one for x, one in zip(inputs, factors, strict=False)]
    return replace(call, node=node), scaled


def _roles(call: OnnxCall, inputs: Several) -> dict[str, Any] | None:
    """Return what its family needs to know of a node, by PyTorch's names; None if it is not of the family after all."""
    kind, x = call.node.op_type, np.asarray(inputs[0], np.float64)
    given = dict(zip(("weight", "bias"), inputs[1:], strict=False))
    if kind in ("Sum", "Mean"):
        return {"first": np.stack(np.broadcast_arrays(*(widened(one) for one in inputs)), -1), "dim": -1}
    if kind.startswith("Reduce"):
        over = call.get("axes") if len(inputs) < 2 or inputs[1] is None else inputs[1]
        axes = None if over is None else tuple(map(int, np.atleast_1d(over)))
        if not axes and call.get("noop_with_empty_axes", 0):
            return None
        terms = {"ReduceSumSquare": np.square, "ReduceL1": np.abs}.get(kind, np.positive)(x)
        return {"first": terms, "dim": axes or tuple(range(x.ndim))}
    if kind == "GlobalAveragePool":
        return {"dim": tuple(range(2, x.ndim))}
    if kind == "AveragePool":
        return {"kernel_size": call.get("kernel_shape"), "axes": x.ndim - 2}
    if kind == "CumSum":
        dim = int(np.asarray(inputs[1]).reshape(())) % x.ndim
        terms = np.flip(x, dim) if call.get("reverse", 0) else x
        if call.get("exclusive", 0):
            terms = np.roll(terms, 1, dim)
            terms[(slice(None),) * dim + (slice(0, 1),)] = 0.0
        return {"first": terms.copy(), "dim": dim}
    if kind in ("Softmax", "LogSoftmax"):
        axis = call.get("axis", -1 if call.opset >= 13 else 1) % x.ndim
        return {"dim": axis if call.opset >= 13 else tuple(range(axis, x.ndim))}
    if kind == "LayerNormalization":
        return {**given, "normalized_shape": x.shape[call.get("axis", -1) % x.ndim :], "eps": call.get("epsilon", 1e-5)}
    if kind == "InstanceNormalization":
        return {**given, "eps": call.get("epsilon", 1e-5)}
    if kind == "MeanVarianceNormalization":
        return {"eps": 1e-9} if {*call.get("axes", (0, 2, 3))} == {*range(x.ndim)} - {1} else None
    if kind == "LpNormalization":
        return {"g": x.max(axis=call.get("axis", -1))}
    if kind == "Resize":
        return {} if call.get("mode") == "linear" and x.ndim in (3, 4) else None
    if kind == "BiasGelu":  # ONNX Runtime is good to the rounding of 1 there
        return {"first": np.maximum(np.abs(x + widened(inputs[1])), 1.0)}
    return {"alpha": call.get("alpha", 1.0), "scale": call.get("gamma", 1.0)} if kind.endswith("lu") else {}
