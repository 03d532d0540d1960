"""One small protocol, one module per runtime."""

from kokoro_nb.backends.base import Backend
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.executorch import Executorch
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.errors import InputError

_REGISTRY: tuple[Backend, ...] = (
    Eager("eager"),
    Eager("eager-float64", double=True),
    OnnxRuntime("onnxruntime"),
    Executorch("executorch-xnnpack"),
    Executorch("executorch-portable", xnnpack=False),
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
