"""16 asks how far TVM's code is from eager PyTorch before and after its loops are scheduled, and what remains."""

from kokoro_nb.studies.tvm_schedule.tvm_builds import tvm_builds

__all__ = ["tvm_builds"]
