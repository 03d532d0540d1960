"""What a notebook takes of time and memory, by its last run to the end on this machine with the same parameters."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.runs import RunRecord
from kokoro_nb.storage import cache_dir, digest, json_ready, read_json, write_json

FILE = "notebook_costs.json"


@dataclass(frozen=True)
class Cost:
    """What a notebook took.

    Attributes
    ----------
    seconds : float or None
        Wall time; None if that is not known.
    memory : float or None
        Most resident memory, GB (10**9 bytes); None if that is not known.
    """

    seconds: float | None = None
    memory: float | None = None


def expected_cost(run: RunRecord) -> Cost:
    """Return what the last run of this notebook with these parameters took here."""
    found = _known().get(_name(run))
    if not isinstance(found, dict) or not all(_is_number(found.get(key)) for key in ("seconds", "memory")):
        return Cost()
    return Cost(float(found["seconds"]), float(found["memory"]))


def note_cost(run: RunRecord) -> None:
    """Note what `run` took, if it ran to its end; where the cache cannot be written, nothing is noted."""
    if run.status in ("passed", "checks failed") and run.seconds is not None:
        with suppress(InputError):
            write_json(cache_dir() / FILE, {**_known(), _name(run): {"seconds": run.seconds, "memory": run.memory}})


def _known() -> Mapping[str, Any]:
    try:
        found = read_json(cache_dir() / FILE, "costs of notebooks")
    except InputError:  # none were noted, or they are damaged
        return {}
    return found if isinstance(found, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(run: RunRecord) -> str:
    return f"{run.notebook} {digest(json.dumps(json_ready(run.parameters), sort_keys=True))[:12]}"
