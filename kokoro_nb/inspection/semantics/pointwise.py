"""Elementwise operators that onnx's reference computes in float32, and casts."""

from typing import Any

import numpy as np
from scipy import special

from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, OnnxCall, meaning


@meaning("Erf")
def _erf(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    return special.erf(x)


@meaning("Gelu")
@meaning("Gelu", domain=MICROSOFT)
def gelu(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    """Return x Φ(x), or its approximation by tanh."""
    if call.get("approximate", "none") == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


@meaning("FastGelu", domain=MICROSOFT)
def _fast_gelu(call: OnnxCall, x: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    x = x if bias is None else x + bias
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@meaning("BiasGelu", domain=MICROSOFT)
def _bias_gelu(call: OnnxCall, x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return (x + bias) * special.ndtr(x + bias)


@meaning("QuickGelu", domain=MICROSOFT)
def _quick_gelu(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    return x * special.expit(call.get("alpha", 1.702) * x)


@meaning("Sigmoid")
def _sigmoid(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    return special.expit(x)


@meaning("HardSwish")
def _hard_swish(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    return x * np.clip(x / 6 + 0.5, 0, 1)


@meaning("Softplus")
def _softplus(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


@meaning("Cast")
def _cast(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    return cast(x, call.get("to"), call.get("saturate", 1), call)


@meaning("CastLike")
def _cast_like(call: OnnxCall, x: np.ndarray, like: np.ndarray) -> np.ndarray:
    from onnx import helper

    return cast(x, helper.np_dtype_to_tensor_dtype(call.dtypes[1]), call.get("saturate", 1), call)


def cast(x: np.ndarray, to: Any, saturate: int, call: OnnxCall) -> np.ndarray:
    """Convert to a type of ONNX.

    What becomes a float of 16 bits or more is not rounded here: that is left to who compares. A float beyond the range
    of an integer has no defined result.
    """
    from onnx import TensorProto, helper
    from onnx.reference.ops.op_cast import cast_to

    if (
        to in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
        and x.dtype.kind in "fiub"
    ):
        return x.astype(np.float64) if x.dtype.kind != "f" else x
    dtype = helper.tensor_dtype_to_np_dtype(to)
    if dtype.kind in "iu" and x.dtype.kind == "f":
        return np.trunc(x).astype(np.int64).astype(dtype) if dtype != np.uint64 else x.astype(dtype)
    if dtype.kind in "iub" and x.dtype.kind in "iub":
        return x.astype(dtype)
    return cast_to(x.astype(np.float32) if x.dtype == np.float64 else x, to, bool(saturate))


@meaning("Dropout")
def _dropout(
    call: OnnxCall, x: np.ndarray, ratio: np.ndarray | None = None, training: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    if training is not None and bool(np.asarray(training).reshape(())) and (ratio is None or float(ratio) != 0):
        raise ValueError("it draws at random in training mode")
    return x, np.ones(x.shape, bool)


def _window(size: Any, periodic: int, terms: tuple[float, ...]) -> np.ndarray:
    points = int(size) if periodic else int(size) - 1
    angle = 2 * np.pi * np.arange(int(size)) / points
    return sum((term * np.cos(k * angle) for k, term in enumerate(terms)), np.zeros(int(size)))


@meaning("HannWindow")
def _hann(call: OnnxCall, size: np.ndarray) -> np.ndarray:
    return _window(size, call.get("periodic", 1), (0.5, -0.5))


@meaning("HammingWindow")
def _hamming(call: OnnxCall, size: np.ndarray) -> np.ndarray:
    return _window(size, call.get("periodic", 1), (25 / 46, -21 / 46))


@meaning("BlackmanWindow")
def _blackman(call: OnnxCall, size: np.ndarray) -> np.ndarray:
    return _window(size, call.get("periodic", 1), (0.42, -0.5, 0.08))
