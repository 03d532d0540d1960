"""Operators on floats in float64: element by element, along axes, by convolution, over time, and com.microsoft's."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy import special

from kokoro_nb.backends.mil.operators.convolution import convolved as convolution
from kokoro_nb.backends.mil.operators.registry import OperatorSite
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS, OnnxCall, by_reference, meaning, stored_as
from kokoro_nb.inspection.semantics.quantised import dynamic_quantize, linear
from kokoro_nb.inspection.value_types import Array, Input, Value

KINDS = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}
"""What MIL calls ONNX's kinds of padding."""
POOLS = {"kernel_shape", "strides", "pads", "ceil_mode"}


@meaning("Conv", "ConvTranspose")
def convolved(call: OnnxCall, x: Array, weight: Array, bias: Input = None) -> Array:
    """Return the convolution over one to three axes; transposed it is computed whole, then cut by its padding."""
    rank, sizes, automatic = x.ndim - 2, x.shape[2:], call.get("auto_pad", "NOTSET")
    steps, apart = (call.get(name, [1] * rank) for name in ("strides", "dilations"))
    edges = np.reshape(call.get("pads", [0] * 2 * rank), (2, rank))
    tensors = [None if one is None else torch.from_numpy(np.ascontiguousarray(one)) for one in (x, weight, bias)]
    kind, shape = KINDS.get(automatic, "custom"), None
    if call.node.op_type == "ConvTranspose":
        spans = np.multiply(np.subtract(weight.shape[2:], 1), apart) + 1
        whole = np.multiply(np.subtract(sizes, 1), steps) + spans + call.get("output_padding", 0)
        wanted = call.get("output_shape", np.multiply(sizes, steps) if kind.startswith("same") else None)
        if wanted is not None:
            total = whole - wanted[-rank:]
            before = total // 2 if kind == "same" else total - total // 2  # of an odd one the larger part
            edges = np.stack([before, total - before])
        kind, shape = "custom", [1, 1, *(whole - edges.sum(axis=0)).tolist()]
    site, pads = OperatorSite("conv_transpose" if shape else "conv", "", 0, ()), edges.T.ravel().tolist()
    about = apart, call.get("group", 1), pads, tensors.pop(), shape
    return np.asarray(convolution(site, *tensors, steps, kind, *about))


@meaning("AveragePool", "MaxPool")
def pooled(call: OnnxCall, x: Array) -> Any:
    """Return pools as PyTorch cuts their windows, which runtimes follow, where it knows such; else the reference's."""
    rank, kernel, ceil = x.ndim - 2, np.array(call.get("kernel_shape")), bool(call.get("ceil_mode"))
    pads, largest = np.reshape(call.get("pads", [0] * 2 * rank), (2, -1)), call.node.op_type == "MaxPool"
    others = {name for name, one in call.attributes.items() if one not in ("NOTSET", 0, [1] * rank)} - POOLS
    others -= {"dilations" if largest else "count_include_pad"}
    tensor = torch.from_numpy(np.ascontiguousarray(x))
    if largest and not ceil and x.dtype.kind == "f":
        tensor, pads = F.pad(tensor, pads.T[::-1].ravel().tolist(), value=-np.inf), 0 * pads
    if (
        others
        or len(call.node.output) > 1
        or x.dtype.kind != "f"
        or (pads != pads[0]).any()
        or (2 * pads > kernel).any()
    ):
        return tuple(by_reference(call, [x]))
    about = kernel.tolist(), call.get("strides", [1] * rank), pads[0].tolist()
    last = (call.get("dilations", 1), ceil) if largest else (ceil, bool(call.get("count_include_pad")))
    return getattr(F, f"{'max' if largest else 'avg'}_pool{rank}d")(tensor, *about, *last).numpy()


Activation = Callable[[Array], Array]
Step = Callable[..., list[Array]]
_ACTIVATIONS: dict[str, tuple[float | None, float | None, Callable[..., Array]]] = {
    "sigmoid": (None, None, special.expit),
    "tanh": (None, None, np.tanh),
    "relu": (None, None, lambda x: np.maximum(x, 0)),
    "softsign": (None, None, lambda x: x / (1 + np.abs(x))),
    "softplus": (None, None, lambda x: np.logaddexp(0, x)),
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "leakyrelu": (0.01, None, lambda x, a: np.where(x < 0, a * x, x)),
    "thresholdedrelu": (1.0, None, lambda x, a: np.where(x > a, x, 0)),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * np.tanh(b * x)),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "elu": (1.0, None, lambda x, a: np.where(x < 0, a * np.expm1(x), x)),
    "clip": (-np.inf, np.inf, np.clip),
}
"""What alpha and beta are by default, None of one that is not read, and the function."""


def activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    """Return an activation by its name, whose numbers are the next of those given, or their defaults."""
    alpha, beta, function = _ACTIVATIONS[name.lower()]
    numbers = [next(given, one) for given, one in ((alphas, alpha), (betas, beta)) if one is not None]
    return lambda x: function(x, *numbers)


def _unrolled(
    call: OnnxCall, defaults: tuple[str, ...], step: Step, x: Array, w: Array, r: Array, *more: Any, states: int = 1
) -> tuple[Array, ...]:
    """Run `step` over time in each direction: what it returns first is the output; rows past their length stay.

    It is given its activations, the product of a row with its bias, the recurrent weights and their bias, the states,
    and which direction it is.
    """
    b, lengths, *starts = [*more, *[None] * (2 + states)][: 2 + states]
    if call.get("layout", 0):
        x = x.swapaxes(0, 1)
        starts = [None if state is None else state.swapaxes(0, 1) for state in starts]
    (time, batch), (directions, gates), count = x.shape[:2], w.shape[:2], len(defaults)
    alphas, betas = iter(call.get("activation_alpha", ())), iter(call.get("activation_beta", ()))
    names = [one.decode() if isinstance(one, bytes) else one for one in call.get("activations", defaults * directions)]
    functions = [activation(name, alphas, betas) for name in names]
    biases = np.zeros((directions, 2 * gates), x.dtype) if b is None else b
    lengths = np.full(batch, time) if lengths is None else lengths
    outputs = np.zeros((time, directions, batch, r.shape[-1]), x.dtype)
    last: list[list[Array]] = []
    for d in range(directions):
        backwards = call.get("direction", "forward") == "reverse" or d == 1
        state = [np.zeros((batch, r.shape[-1]), x.dtype) if s is None else s[d].copy() for s in starts]
        for t in range(time):
            live = (t < lengths)[:, None]
            rows = np.where(t < lengths, lengths - 1 - t, t) if backwards else np.full(batch, t)
            given = x[rows, np.arange(batch)] @ w[d].T + biases[d, :gates]
            new = step(functions[count * d :][:count], given, r[d], biases[d, gates:], state, d)
            state = [np.where(live, after, before) for after, before in zip(new, state, strict=True)]
            outputs[rows, d, np.arange(batch)] = np.where(live, new[0], 0)
        last.append(state)
    finals = [np.stack(each) for each in zip(*last, strict=True)]
    if call.get("layout", 0):
        return (outputs.transpose(2, 0, 1, 3), *(final.swapaxes(0, 1) for final in finals))
    return (outputs, *finals)


def _clipped(call: OnnxCall, x: Array) -> Array:
    limit = call.get("clip")
    return np.clip(x, -limit, limit) if limit else x


@meaning("LSTM")
def lstm(
    call: OnnxCall, x: Array, w: Array, r: Array, *more: Any, rounded: Activation = np.asarray
) -> tuple[Array, ...]:
    """Return Y, Y_h and Y_c; weights as (directions, 4 hidden, width), gates in the order i, o, f, c.

    `rounded` is what the runtime does to the state before each product.
    """
    p = more[4] if len(more) > 4 else None

    def step(functions: Any, given: Array, r: Array, bias: Array, state: list[Array], d: int) -> list[Array]:
        (f, g, out), (h, c) = functions, state
        i, o, forget, cell = np.split(given + rounded(h) @ r.T + bias, 4, axis=-1)
        pi, po, pf = np.split(p[d], 3) if p is not None else (0, 0, 0)
        entered = f(_clipped(call, i + pi * c))
        kept = 1 - entered if call.get("input_forget", 0) else f(_clipped(call, forget + pf * c))
        c = kept * c + entered * g(_clipped(call, cell))
        return [f(_clipped(call, o + po * c)) * out(c), c]

    return _unrolled(call, ("Sigmoid", "Tanh", "Tanh"), step, x, w, r, *more[:4], states=2)


@meaning("GRU")
def _gru(call: OnnxCall, *inputs: Any) -> tuple[Array, ...]:
    def step(functions: Any, given: Array, r: Array, bias: Array, state: list[Array], d: int) -> list[Array]:
        (f, g), (h,) = functions, state
        wz, wr, wh = np.split(given, 3, axis=-1)
        (rz, rr, rh), (bz, br, bh) = np.split(r, 3), np.split(bias, 3)
        z = f(_clipped(call, wz + h @ rz.T + bz))
        reset = f(_clipped(call, wr + h @ rr.T + br))
        kept = reset * (h @ rh.T + bh) if call.get("linear_before_reset", 0) else (reset * h) @ rh.T + bh
        return [(1 - z) * g(_clipped(call, wh + kept)) + z * h]

    return _unrolled(call, ("Sigmoid", "Tanh"), step, *inputs)


@meaning("RNN")
def _rnn(call: OnnxCall, *inputs: Any) -> tuple[Array, ...]:
    def step(functions: Any, given: Array, r: Array, bias: Array, state: list[Array], d: int) -> list[Array]:
        return [functions[0](_clipped(call, given + state[0] @ r.T + bias))]

    return _unrolled(call, ("Tanh",), step, *inputs)


def _normed(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """Return values less their mean and over their deviation, the mean, and one over the deviation."""
    mean = x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(x - mean).mean(axis=axes, keepdims=True) + epsilon)
    return (x - mean) * inverse, mean, inverse


@meaning("LayerNormalization", "com.microsoft.LayerNormalization")
def _layer_norm(call: OnnxCall, x: Array, scale: Array, bias: Input = None) -> tuple[Array, ...]:
    y, *rest = _normed(x, tuple(range(call.get("axis", -1) % x.ndim, x.ndim)), call.get("epsilon", 1e-5))
    return (y * scale + (0 if bias is None else bias), *rest)[: len(call.node.output)]


@meaning("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_norm(call: OnnxCall, x: Array, scale: Array) -> Array:
    axes = tuple(range(call.get("axis", -1) % x.ndim, x.ndim))
    return x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + call.get("epsilon", 1e-5)) * scale


@meaning("com.microsoft.SkipLayerNormalization")
def _skip_layer_norm(
    call: OnnxCall, x: Array, skip: Array, gamma: Array, beta: Input = None, bias: Input = None
) -> tuple[Input, ...]:
    total = x + skip + (0 if bias is None else bias)
    y, mean, inverse = _normed(total, (-1,), call.get("epsilon", 1e-12))
    return (y * gamma + (0 if beta is None else beta), mean, inverse, total)[: len(call.node.output)]


@meaning("BatchNormalization")
def _batch_norm(call: OnnxCall, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> tuple[Input, ...]:
    if call.get("training_mode", 0):
        return tuple(by_reference(call, [x, scale, bias, mean, variance]))
    shape = (1, -1) + (1,) * (x.ndim - 2)
    factor = (scale / np.sqrt(variance + call.get("epsilon", 1e-5))).reshape(shape)
    return ((x - mean.reshape(shape)) * factor + bias.reshape(shape),)


@meaning("Softmax", "LogSoftmax", "Hardmax")
def _softmax(call: OnnxCall, x: Array) -> Value:
    """Of all axes from `axis` on as if they were one, before version 13."""
    if call.opset >= 13:
        return by_reference(call, [x])[0]
    rows = x.reshape(int(np.prod(x.shape[: call.get("axis", 1) % x.ndim])), -1)
    node = type(call.node)(op_type=call.node.op_type, input=["x"], output=["y"])
    return np.asarray(by_reference(OnnxCall(node, {"": 13}), [rows])[0]).reshape(x.shape)


@meaning("LpNormalization")
def _lp_norm(call: OnnxCall, x: Array) -> Array:
    norm = np.linalg.norm(x, call.get("p", 2), call.get("axis", -1), keepdims=True)
    return np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)


@meaning("Resize", "Upsample")
def _resize(call: OnnxCall, x: Array, *given: Input) -> Value:
    """By the scales before version 11; a length is what float32 makes of length times scale."""
    from onnx import helper

    inputs = list(given)
    if call.opset < 11:
        inputs = [None, np.asarray(call.get("scales")) if not given else given[0]]
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=call.get("mode", "nearest"), **how)
        call = replace(call, node=node, opsets={"": 13})
    if len(inputs) > 1 and inputs[1] is not None and np.size(inputs[1]):
        scales = np.asarray(inputs[1])
        lengths = np.take(x.shape, call.get("axes", range(x.ndim)))
        least = np.floor(scales.astype(np.float32) * lengths.astype(np.float32))
        inputs[1] = np.where(np.floor(scales * lengths) < least, np.nextafter(least / lengths, np.inf), scales)
    return by_reference(call, [x, *inputs])[0]


@meaning("GroupNormalization")
def _group_norm(call: OnnxCall, x: Array, scale: Array, bias: Array) -> Array:
    groups = call.get("num_groups")
    parts, *_ = _normed(x.reshape(x.shape[0], groups, -1), (-1,), call.get("epsilon", 1e-5))
    each = x.shape[1] // groups if call.opset < 21 else 1  # one scale for a group, then one for a channel
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return parts.reshape(x.shape) * np.repeat(scale, each).reshape(shape) + np.repeat(bias, each).reshape(shape)


@meaning("MeanVarianceNormalization")
def _mean_variance_norm(call: OnnxCall, x: Array) -> Array:
    _, mean, inverse = _normed(x, tuple(call.get("axes", (0, 2, 3))), 0.0)
    return (x - mean) / (1 / inverse + 1e-9)


@meaning("LRN")
def _local_response(call: OnnxCall, x: Array) -> Array:
    size = call.get("size")
    squares = np.pad(np.square(x), [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)])
    squares = np.lib.stride_tricks.sliding_window_view(squares, size, axis=1).sum(axis=-1)
    return x / (call.get("bias", 1.0) + call.get("alpha", 1e-4) / size * squares) ** call.get("beta", 0.75)


@meaning("Scatter")
def _scatter(call: OnnxCall, *inputs: Value) -> Value:
    """Return what ScatterElements gives, as it is called from version 11 on."""
    node = type(call.node)(op_type="ScatterElements", input="xyz", output="r", attribute=call.node.attribute)
    return by_reference(OnnxCall(node, {"": 13}), inputs)[0]


def _by_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@meaning("Gelu", "com.microsoft.Gelu")
def gelu(call: OnnxCall, x: Array) -> Array:
    """Return x Φ(x), or its approximation by tanh."""
    return _by_tanh(x) if call.get("approximate", "none") == "tanh" else x * special.ndtr(x)


@meaning("Cast", "CastLike")
def _cast(call: OnnxCall, x: Array, *like: Array) -> Array:
    """Convert to a type of ONNX.

    What becomes a float of 16 bits or more is not rounded here: that is left to who compares. A float beyond the range
    of an integer has no defined result.
    """
    from onnx import helper

    dtype: Any = call.dtypes[1] if like else helper.tensor_dtype_to_np_dtype(call.get("to"))
    if dtype.name in ("float32", "float64", "float16", "bfloat16") and x.dtype.kind in "fiub":
        return x.astype(np.float64) if x.dtype.kind != "f" else x
    if dtype.kind in "iu" and x.dtype.kind == "f":
        return np.trunc(x).astype(np.int64).astype(dtype) if dtype != np.uint64 else x.astype(dtype)
    return stored_as(call, x.astype(np.float32) if x.dtype == np.float64 else x, dtype)


@meaning("Dropout")
def _dropout(call: OnnxCall, x: Array, ratio: Input = None, training: Input = None) -> tuple[Array, Array]:
    if training is not None and bool(np.asarray(training).reshape(())) and (ratio is None or float(ratio) != 0):
        raise ValueError("it draws at random in training mode")
    return x, np.ones(x.shape, bool)


def _window(call: OnnxCall, size: Array, terms: tuple[float, ...]) -> Array:
    angle = 2 * np.pi * np.arange(int(size)) / (int(size) if call.get("periodic", 1) else int(size) - 1)
    return sum((term * np.cos(k * angle) for k, term in enumerate(terms)), np.zeros(int(size)))


MEANINGS |= {
    "Erf": lambda call, x: special.erf(x),
    "HardSwish": lambda call, x: x * np.clip(x / 6 + 0.5, 0, 1),
    "HannWindow": partial(_window, terms=(0.5, -0.5)),
    "HammingWindow": partial(_window, terms=(25 / 46, -21 / 46)),
    "BlackmanWindow": partial(_window, terms=(0.42, -0.5, 0.08)),
    "com.microsoft.FastGelu": lambda call, x, bias=None: _by_tanh(x if bias is None else x + bias),
    "com.microsoft.BiasGelu": lambda call, x, bias: (x + bias) * special.ndtr(x + bias),
    "com.microsoft.QuickGelu": lambda call, x: x * special.expit(call.get("alpha", 1.702) * x),
}


@meaning("com.microsoft.DynamicQuantizeLSTM")
def _dynamic_lstm(call: OnnxCall, x: Array, w: Array, r: Array, *more: Any) -> tuple[Array, ...]:
    """Run an LSTM whose weights are (directions, width, 4 hidden) integers.

    The rows are quantised by the range of all of them, the state at each step by its own.
    """

    def rounded(values: Array) -> Array:
        return linear(*dynamic_quantize(call, values))

    plain, about = more[:-4], [one.reshape(len(w), 1, -1) for one in more[-4:]]  # of a direction, or of each column
    wide = linear(w, *about[:2]), linear(r, *about[2:])
    return lstm(call, rounded(x), *(each.swapaxes(1, 2) for each in wide), *plain, rounded=rounded)


@meaning("GlobalAveragePool")
def _global_average(call: OnnxCall, x: Array) -> Array:
    """Return the mean of each channel; `channels_last` comes from QLinearGlobalAveragePool."""
    return x.mean(tuple(range(1, x.ndim - 1) if call.get("channels_last", 0) else range(2, x.ndim)), keepdims=True)


@meaning("com.microsoft.FusedMatMul")
def _fused_matmul(call: OnnxCall, a: Array, b: Array) -> Array:
    if call.get("transBatchA", 0) or call.get("transBatchB", 0):
        raise ValueError("batches are transposed")
    a, b = (x.swapaxes(-1, -2) if call.get(name, 0) else x for name, x in (("transA", a), ("transB", b)))
    return call.get("alpha", 1.0) * np.matmul(a, b)


@meaning("com.microsoft.FusedConv")
def _fused_conv(call: OnnxCall, x: Array, w: Array, b: Input = None, z: Input = None) -> Array:
    y = convolved(call, x, w, b)
    y = y if z is None else y + z
    alpha, beta = (iter(call.get("activation_params", ())[k : k + 1]) for k in (0, 1))
    name = call.get("activation")
    return activation(name, alpha, beta)(y) if name else y
