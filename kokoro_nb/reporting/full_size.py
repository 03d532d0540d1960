"""What each notebook took with weights of the published size, as `report --record` keeps it and `needs` reckons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.runs import RunRecord
from kokoro_nb.reporting.selection import notebooks_folder
from kokoro_nb.reporting.versions import commit, versions
from kokoro_nb.storage import read_json, write_json

FILE = "full_size.json"


@dataclass(frozen=True)
class FullSizeRuns:
    """The recorded runs.

    Attributes
    ----------
    weights : float
        Bytes of the weights, as `needs` counts them.
    notebooks : mapping
        By the notebook's name: ``seconds`` of wall time, ``processor`` seconds, ``memory`` in GB.
    """

    weights: float
    notebooks: Mapping[str, Mapping[str, float]]

    def memory(self, notebook: str, weights: float) -> float | None:
        """Return how many bytes a notebook holds with so many bytes of weights; None if it was never recorded.

        Larger weights take more in proportion. Smaller ones are not measured by these.
        """
        if notebook not in self.notebooks or weights < 0.5 * self.weights:
            return None
        larger = weights / self.weights
        return self.notebooks[notebook]["memory"] * 1e9 * (larger if larger > 1 else 1.0)


def read_full_size(folder: Path | None = None) -> FullSizeRuns | None:
    """Return what was recorded beside the notebooks; None if nothing was, or it cannot be read."""
    try:
        folder = notebooks_folder() if folder is None else folder
        found = read_json(folder / FILE, "record of runs at full size")
        rows = {name: {key: float(row[key]) for key in _KEYS} for name, row in found["notebooks"].items()}
        return FullSizeRuns(float(found["weights (bytes)"]), rows)
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        return None


def record_full_size(runs: Iterable[RunRecord], weights: float, folder: Path | None = None) -> Path:
    """Write what runs that passed took beside the notebooks, in the place of what was recorded of them before.

    Raises
    ------
    InputError
        If none of them passed.
    """
    folder = notebooks_folder() if folder is None else folder
    rows = {run.notebook: {key: getattr(run, key) for key in _KEYS} for run in runs if run.status == "passed"}
    if not rows:
        raise InputError("No notebook passed, and there is nothing to record.")
    before = read_full_size(folder)
    kept: dict[str, Any] = {} if before is None or before.weights != weights else dict(before.notebooks)
    about = {"commit": commit(), "versions": versions(), "weights (bytes)": weights}
    write_json(folder / FILE, {**about, "notebooks": dict(sorted({**kept, **rows}.items()))})
    return folder / FILE


_KEYS = ("seconds", "processor", "memory")
