"""Find out why a speech model that works in PyTorch goes silent, noisy or NaN once it is exported.

``import kokoro_nb as nb`` is the whole public surface; ``kokoro-nb VERB`` does the same from a terminal. A name is
imported when it is used, so that the package itself loads at once.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

_NAMES = {
    "models.kokoro": ("load_model",),
    "models.case": ("capture",),
    "models.patches": ("patched",),
    "verbs": ("export", "trace", "compare", "transcribe", "deliver", "bench", "say"),
    "locate.survey": ("survey",),
    "inspection": ("diagnose", "inspect"),
    "faults": ("plant",),
    "studies.repair": ("repair",),
    "reporting.explorer": ("explore",),
    "backends": ("BACKENDS",),
    "locate.diagnosis": ("Diagnosis",),
    "errors": ("InputError",),
    "reporting.logbook": ("Logbook",),
}  # by the module that defines them
_HOMES = {name: f"kokoro_nb.{module}" for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: torch alone takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kokoro_nb' has no attribute '{name}'; it has {', '.join(__all__)}.")
    found = _saying(lambda: getattr(import_module(_HOMES[name]), name))()
    return _saying(found) if isinstance(found, FunctionType) else found


def _saying(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Return `verb`, which names the extra that brings a package where that is not installed."""

    @wraps(verb)
    def said(*args: Any, **options: Any) -> Any:
        try:
            return verb(*args, **options)
        except ModuleNotFoundError as error:
            from kokoro_nb.errors import absent_package

            raise (absent_package(error) or error) from None

    return said


def __dir__() -> list[str]:
    return [*globals(), *__all__]
