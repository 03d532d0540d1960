"""Qualcomm's NPU through onnxruntime-qnn, an optional extra: compiled here, run on the simulator."""

from kokoro_nb.backends.qnn.qnn_backend import Qnn

__all__ = ["Qnn"]
