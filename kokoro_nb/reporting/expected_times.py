"""How long a notebook took when it last ran to its end on this machine, with the same parameters."""

import json
from contextlib import suppress

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.runs import RunRecord
from kokoro_nb.storage import cache_dir, digest, json_ready, read_json, write_json

FILE = "notebook_seconds.json"


def expected_seconds(run: RunRecord) -> float | None:
    """Return the wall time of the last run of this notebook with these parameters here; None if there was none."""
    found = _known().get(_name(run))
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def note_seconds(run: RunRecord) -> None:
    """Note how long `run` took, if it ran to its end; where the cache cannot be written, nothing is noted."""
    if run.status in ("passed", "checks failed") and run.seconds is not None:
        with suppress(InputError):
            write_json(cache_dir() / FILE, {**_known(), _name(run): run.seconds})


def _known() -> dict[str, float]:
    try:
        found = read_json(cache_dir() / FILE, "times of notebooks")
    except InputError:  # none were noted, or they are damaged
        return {}
    return found if isinstance(found, dict) else {}


def _name(run: RunRecord) -> str:
    return f"{run.notebook} {digest(json.dumps(json_ready(run.parameters), sort_keys=True))[:12]}"
