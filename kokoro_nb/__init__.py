"""Find out why a speech model that works in PyTorch goes silent, noisy or NaN once it is exported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kokoro_nb.backends import BACKENDS
    from kokoro_nb.locate import first_divergence, first_nonfinite
    from kokoro_nb.models.kokoro import load_model

__all__ = ["BACKENDS", "first_divergence", "first_nonfinite", "load_model"]

_HOMES = {
    "BACKENDS": "kokoro_nb.backends",
    "first_divergence": "kokoro_nb.locate",
    "first_nonfinite": "kokoro_nb.locate",
    "load_model": "kokoro_nb.models.kokoro",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: torch takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kokoro_nb' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
