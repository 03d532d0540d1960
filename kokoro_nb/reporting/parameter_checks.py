"""The parameters of a notebook, checked when its logbook is opened, before anything takes time."""

import json
from collections.abc import Mapping
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready

BACKENDS = ("backend", "backends", "delegates", "accelerators")  # a parameter of that name, or ending with it
FAULTS = ("faults", "planted")


def checked_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as a dictionary of plain values.

    Raises
    ------
    InputError
        If one cannot be written as JSON, names a backend that there is not, or a fault that is none.
    """
    for name, value in parameters.items():
        try:
            json.dumps(json_ready(value), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The parameter '{name}' cannot be written as JSON ({error}); use plain values."
            ) from error
        texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        for text in texts:
            if name.rpartition("_")[2] in BACKENDS:
                _require_backend(text)
            elif name in FAULTS:
                _require_fault(text)
    return dict(parameters)


def _require_backend(name: Any) -> None:
    from kokoro_nb.backends import backend

    backend(name)


def _require_fault(text: Any) -> None:
    from kokoro_nb.faults import Fault

    Fault.parse(text)
