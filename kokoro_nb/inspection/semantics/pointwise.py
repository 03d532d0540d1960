"""Elementwise operators that onnx's reference computes in float32, and casts."""

import numpy as np
from scipy import special

from kokoro_nb.errors import undocumented
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS, MICROSOFT, Meaning, OnnxCall, meaning
from kokoro_nb.inspection.value_types import Array

SEEN_IN = {"onnx": ("1.17", "1.23")}  # the reference's rounding to small types, which is not documented


def _by_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@meaning("Gelu")
@meaning("Gelu", domain=MICROSOFT)
def gelu(call: OnnxCall, x: Array) -> Array:
    """Return x Φ(x), or its approximation by tanh."""
    return _by_tanh(x) if call.get("approximate", "none") == "tanh" else x * special.ndtr(x)


@meaning("Cast", "CastLike")
def _cast(call: OnnxCall, x: Array, *like: Array) -> Array:
    """Convert to a type of ONNX.

    What becomes a float of 16 bits or more is not rounded here: that is left to who compares. A float beyond the range
    of an integer has no defined result.
    """
    from onnx import TensorProto, helper

    to = helper.np_dtype_to_tensor_dtype(call.dtypes[1]) if like else call.get("to")
    wide = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    if to in wide and x.dtype.kind in "fiub":
        return x.astype(np.float64) if x.dtype.kind != "f" else x
    dtype = helper.tensor_dtype_to_np_dtype(to)
    if dtype.kind in "iu" and x.dtype.kind == "f":
        return np.trunc(x).astype(np.int64).astype(dtype) if dtype != np.uint64 else x.astype(dtype)
    return stored_as(call, x.astype(np.float32) if x.dtype == np.float64 else x, to)


def stored_as(call: OnnxCall, x: Array, to: int) -> Array:
    """Return float32 values in a type of ONNX, given by its number, as the reference rounds and limits them."""
    cast = undocumented("onnx.reference.ops.op_cast", "cast_to", "No cast to such a type is judged", SEEN_IN)
    return cast(x, to, bool(call.get("saturate", 1)))


@meaning("Dropout")
def _dropout(
    call: OnnxCall, x: Array, ratio: Array | None = None, training: Array | None = None
) -> tuple[Array, Array]:
    if training is not None and bool(np.asarray(training).reshape(())) and (ratio is None or float(ratio) != 0):
        raise ValueError("it draws at random in training mode")
    return x, np.ones(x.shape, bool)


def _window(*terms: float) -> Meaning:
    def window(call: OnnxCall, size: Array) -> Array:
        points = int(size) if call.get("periodic", 1) else int(size) - 1
        angle = 2 * np.pi * np.arange(int(size)) / points
        return sum((term * np.cos(k * angle) for k, term in enumerate(terms)), np.zeros(int(size)))

    return window


MEANINGS |= {
    ("", "Erf"): lambda call, x: special.erf(x),
    ("", "Sigmoid"): lambda call, x: special.expit(x),
    ("", "HardSwish"): lambda call, x: x * np.clip(x / 6 + 0.5, 0, 1),
    ("", "Softplus"): lambda call, x: np.logaddexp(0, x),
    ("", "HannWindow"): _window(0.5, -0.5),
    ("", "HammingWindow"): _window(25 / 46, -21 / 46),
    ("", "BlackmanWindow"): _window(0.42, -0.5, 0.08),
    (MICROSOFT, "FastGelu"): lambda call, x, bias=None: _by_tanh(x if bias is None else x + bias),
    (MICROSOFT, "BiasGelu"): lambda call, x, bias: (x + bias) * special.ndtr(x + bias),
    (MICROSOFT, "QuickGelu"): lambda call, x: x * special.expit(call.get("alpha", 1.702) * x),
}
