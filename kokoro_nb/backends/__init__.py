"""One small protocol, one module per runtime."""

from kokoro_nb.backends.base import Backend
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.executorch import Executorch
from kokoro_nb.backends.inductor import AotInductor
from kokoro_nb.backends.mil.reference import CoreMlReference
from kokoro_nb.backends.mil.rounding import STRICT
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.torchscript import TorchScript
from kokoro_nb.backends.tvm import Tvm, TvmCross
from kokoro_nb.errors import InputError

_REGISTRY: tuple[Backend, ...] = (
    Eager("eager"),
    Eager("eager-float64", double=True),
    OnnxRuntime("onnxruntime"),
    Executorch("executorch-xnnpack"),
    Executorch("executorch-portable", delegate=None),
    Executorch("executorch-coreml", delegate="coreml"),
    Executorch("executorch-vulkan", delegate="vulkan"),
    TorchScript("torchscript"),
    TorchScript("torchscript-lite", lite=True),
    AotInductor("aot-inductor"),
    CoreMl("coreml"),
    CoreMl("coreml-float16", precision="float16"),
    CoreMlReference("coreml-reference", CoreMl("coreml")),
    CoreMlReference("coreml-reference-float16", CoreMl("coreml-float16", precision="float16")),
    CoreMlReference("coreml-reference-float16-strict", CoreMl("coreml-float16", precision="float16"), STRICT),
    Qnn("onnxruntime-qnn"),
    Tvm("tvm"),
    Tvm("tvm-unfused", fused=False),
    TvmCross("tvm-aarch64-linux", machine="aarch64-linux"),
    TvmCross("tvm-arm64-macos", machine="arm64-macos"),
    TvmCross("tvm-metal", machine="metal"),
    TvmCross("tvm-opencl", machine="opencl"),
)

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in _REGISTRY}


def backend(name: str) -> Backend:
    """Return the backend called `name`.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in BACKENDS:
        raise InputError(f"There is no backend '{name}'; the backends are {', '.join(BACKENDS)}.")
    return BACKENDS[name]
