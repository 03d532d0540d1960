"""Weights stored in fewer bytes, in a file that still computes in float32 and takes and gives what it did.

A client that reads every output as float32, as sherpa-onnx does, cannot be given another dtype; the size of the
download is what float16 and int8 are for, and that is in the weights alone.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import STORED, Dtype
from kokoro_nb.errors import InputError

SMALLEST = 1024  # elements; what is smaller stays as it is
SUFFIX = "_stored"


def store(model: Any, dtype: Dtype, but: Collection[str] = ()) -> None:
    """Store the larger weights of an ONNX model as `dtype`, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        Of opset 13 or above.
    dtype : {"float32", "float16", "int8"}
        ``float16``: rounded, and cast back when the file is loaded. ``int8``: a scale for each channel, the largest
        magnitude of the channel over 127, and no zero point.
    but : collection of str
        Names of those that stay as they are.

    Raises
    ------
    InputError
        If the dtype is none of these.
    """
    import onnx
    from onnx import helper, numpy_helper

    if dtype not in STORED:
        raise InputError(f"Weights cannot be stored as '{dtype}'; use one of {', '.join(STORED)}.")
    if dtype == "float32":
        return
    graph, nodes = model.graph, []
    for tensor in graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) < 2 or np.prod(tensor.dims) < SMALLEST:
            continue
        if tensor.name in but:
            continue
        name, values = tensor.name, numpy_helper.to_array(tensor)
        if dtype == "float16":
            stored = values.astype(np.float16)
            nodes.append(helper.make_node("Cast", [name + SUFFIX], [name], to=onnx.TensorProto.FLOAT))
        else:
            axis = 1 if values.ndim == 3 and values.shape[0] <= 2 else 0  # an LSTM's first axis is the direction
            stored, scale = quantised(values, axis)
            graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
            nodes.append(helper.make_node("DequantizeLinear", [name + SUFFIX, f"{name}_scale"], [name], axis=axis))
        tensor.CopyFrom(numpy_helper.from_array(stored, name + SUFFIX))
    before = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *before])


def quantised(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 values and their scales, one for each position of `axis`.

    >>> stored, scale = quantised(np.array([[127.0, -63.5], [0.0, 0.0]], np.float32), 0)
    >>> stored.tolist(), scale.tolist()
    ([[127, -64], [0, 0]], [1.0, 1.0])
    """
    others = tuple(one for one in range(values.ndim) if one != axis)
    largest = np.abs(values).max(axis=others)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    shape = [-1 if one == axis else 1 for one in range(values.ndim)]
    return np.rint(values / scale.reshape(shape)).astype(np.int8), scale
