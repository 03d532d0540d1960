"""Fourier transforms in the type of their input, bits, and what onnx's reference lacks or takes element by element."""

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, meaning


@meaning("DFT")
def _dft(call: OnnxCall, x: np.ndarray, length: np.ndarray | None = None, axis: np.ndarray | None = None) -> np.ndarray:
    where = int(call.get("axis", 1) if call.opset < 20 else -2 if axis is None else np.asarray(axis).reshape(()))
    where %= x.ndim
    inverse, onesided = bool(call.get("inverse", 0)), bool(call.get("onesided", 0))
    signal = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]
    size = None if length is None else int(np.asarray(length).reshape(()))
    if inverse and onesided:
        return np.fft.irfft(signal, size, where)[..., None]
    if inverse:
        result = np.fft.ifft(signal, size, where)
    else:
        result = np.fft.rfft(signal, size, where) if onesided else np.fft.fft(signal, size, where)
    return np.stack([result.real, result.imag], -1)


@meaning("Scatter")
def _scatter(call: OnnxCall, data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    axis = call.get("axis", 0)
    result = data.copy()
    np.put_along_axis(result, np.where(indices < 0, indices + data.shape[axis], indices), updates, axis)
    return result


@meaning("GatherND")
def _gather_nd(call: OnnxCall, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    batch = call.get("batch_dims", 0)
    ranges = [np.arange(size) for size in data.shape[:batch]]
    batches = [place.reshape(place.shape + (1,) * (indices.ndim - 1 - batch)) for place in np.ix_(*ranges)]
    return data[(*batches, *np.moveaxis(indices, -1, 0))]


@meaning("BitCast")
def _bits(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    from onnx import helper

    return x.view(helper.tensor_dtype_to_np_dtype(call.get("to")))
