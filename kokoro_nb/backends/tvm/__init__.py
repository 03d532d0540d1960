"""TVM, for this processor and for others."""

from kokoro_nb.backends.tvm.cross import TvmCross
from kokoro_nb.backends.tvm.schedule.scheduled_tvm import TvmScheduled
from kokoro_nb.backends.tvm.tvm_backend import Tvm

__all__ = ["Tvm", "TvmCross", "TvmScheduled"]
