"""Norms, sums, transforms and gathers along axes, in the type of their inputs, whatever type the node would stash."""

from dataclasses import replace

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, OnnxCall, by_reference, meaning
from kokoro_nb.inspection.value_types import Array, Input, Value


def _normed(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """Return values less their mean and over their deviation, the mean, and one over the deviation."""
    mean = x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(x - mean).mean(axis=axes, keepdims=True) + epsilon)
    return (x - mean) * inverse, mean, inverse


@meaning("LayerNormalization")
@meaning("LayerNormalization", domain=MICROSOFT)
def _layer_norm(call: OnnxCall, x: Array, scale: Array, bias: Input = None) -> tuple[Array, ...]:
    y, *rest = _normed(x, tuple(range(call.get("axis", -1) % x.ndim, x.ndim)), call.get("epsilon", 1e-5))
    return (y * scale + (0 if bias is None else bias), *rest)[: len(call.node.output)]


@meaning("RMSNormalization")
@meaning("SimplifiedLayerNormalization")
def _rms_norm(call: OnnxCall, x: Array, scale: Array) -> Array:
    axes = tuple(range(call.get("axis", -1) % x.ndim, x.ndim))
    return x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + call.get("epsilon", 1e-5)) * scale


@meaning("SkipLayerNormalization", domain=MICROSOFT)
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
    size, channels = call.get("size"), x.shape[1]
    squares = np.zeros_like(x)
    for channel in range(channels):
        window = slice(max(0, channel - (size - 1) // 2), min(channels, channel + size // 2 + 1))
        squares[:, channel] = np.square(x[:, window]).sum(axis=1)
    return x / (call.get("bias", 1.0) + call.get("alpha", 1e-4) / size * squares) ** call.get("beta", 0.75)


@meaning("Scatter")
def _scatter(call: OnnxCall, data: Array, indices: Array, updates: Array) -> Array:
    axis = call.get("axis", 0)
    result = data.copy()
    np.put_along_axis(result, np.where(indices < 0, indices + data.shape[axis], indices), updates, axis)
    return result


@meaning("GatherND")
def _gather_nd(call: OnnxCall, data: Array, indices: Array) -> Array:
    batch = call.get("batch_dims", 0)
    ranges = [np.arange(size) for size in data.shape[:batch]]
    batches = [place.reshape(place.shape + (1,) * (indices.ndim - 1 - batch)) for place in np.ix_(*ranges)]
    return data[(*batches, *np.moveaxis(indices, -1, 0))]


@meaning("BitCast")
def _bits(call: OnnxCall, x: Array) -> Array:
    from onnx import helper

    return x.view(helper.tensor_dtype_to_np_dtype(call.get("to")))
