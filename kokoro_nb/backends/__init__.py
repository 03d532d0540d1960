"""One small protocol, one module per runtime."""

from kokoro_nb.backends.base import Backend
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.executorch import Executorch
from kokoro_nb.backends.inductor import AotInductor
from kokoro_nb.backends.mil import CoreMlReference
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.tvm import Tvm
from kokoro_nb.backends.tvm.schedule import TvmScheduled
from kokoro_nb.errors import InputError
from kokoro_nb.known_warnings import silence_known_warnings

silence_known_warnings()  # of what the runtimes import

_LISTED: tuple[tuple[Backend, str], ...] = (
    (Eager("eager"), "PyTorch on this processor: the reference that every runtime is compared with"),
    (Eager("eager-float64", double=True), "the same in float64: the reference for how far float32 itself is off"),
    (OnnxRuntime("onnxruntime"), "ONNX Runtime on this processor; every operator can be traced"),
    (Executorch("executorch-xnnpack"), "ExecuTorch with XNNPACK, as phones run it; traced outside XNNPACK"),
    (Executorch("executorch-portable", delegate=None), "ExecuTorch without a delegate; every operator can be traced"),
    (Executorch("executorch-coreml", delegate="coreml"), "ExecuTorch with Core ML, for Apple's devices"),
    (
        Executorch("executorch-vulkan", delegate="vulkan"),
        "ExecuTorch with Vulkan, for the graphics processors of phones",
    ),
    (AotInductor("aot-inductor"), "compiled by PyTorch to machine code for this processor; outputs only"),
    (CoreMl("coreml"), "Core ML as coremltools converts by default, in float16; outputs only"),
    (CoreMl("coreml-float32", precision="float32"), "Core ML in float32; outputs only"),
    (CoreMl("coreml-trace", route="trace"), "the same as coreml, from torch.jit.trace; outputs only"),
    (
        CoreMlReference("coreml-reference", CoreMl("coreml")),
        "the file of coreml, executed operator by operator on any machine; every operator can be traced",
    ),
    (
        CoreMlReference("coreml-reference-float32", CoreMl("coreml-float32", precision="float32")),
        "the file of coreml-float32, executed in the same way",
    ),
    (
        CoreMlReference("coreml-reference-strict", CoreMl("coreml"), "strict"),
        "the file of coreml, every product and partial sum rounded to float16; Apple does not say how it sums",
    ),
    (
        CoreMlReference("coreml-reference-trace", CoreMl("coreml-trace", route="trace")),
        "the file of coreml-trace, executed on any machine; most operators can be traced",
    ),
    (Qnn("onnxruntime-qnn"), "Qualcomm's NPU, on its simulator; outputs only"),
    (Tvm("tvm"), "TVM's own pipeline for this processor, which joins operators; outputs only"),
    (Tvm("tvm-unfused", fused=False), "tvm.compile's default, which joins no operators; every operator can be traced"),
    (TvmScheduled("tvm-scheduled"), "TVM, operators joined and loops reordered by kokoro_nb for speed; outputs only"),
)

_SPELLED_OUT = {"coreml-float16": "coreml", "coreml-reference-float16": "coreml-reference"}  # with their precision
PURPOSES: dict[str, str] = {backend.name: purpose for backend, purpose in _LISTED}  # what each is for


class _Backends(dict[str, Backend]):
    """Backends by name; of a name that is none it says so in an InputError."""

    def __missing__(self, name: str) -> Backend:
        if name not in _SPELLED_OUT:
            raise InputError(f"There is no backend '{name}'; the backends are {', '.join(self)}.")
        return self[_SPELLED_OUT[name]]


BACKENDS = _Backends({backend.name: backend for backend, _ in _LISTED})


def backend(name: str) -> Backend:
    """Return the backend called `name`.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    return BACKENDS[name]
