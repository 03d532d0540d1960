"""TVM, for this processor and for others."""

from kokoro_nb.backends.tvm.backend import Tvm
from kokoro_nb.backends.tvm.cross import TvmCross

__all__ = ["Tvm", "TvmCross"]
