"""How the cells of a sweep ended, and what is kept of that beside each one's record."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.run_outcome import Status
from kokoro_nb.reporting.runs import RunRecord, reusable
from kokoro_nb.reporting.sweep.grid import SweepCell
from kokoro_nb.storage import read_json, write_json

State = Status | Literal["skipped"]
FILE = "attempts.json"


@dataclass(frozen=True)
class CellResult:
    """How one cell ended.

    Attributes
    ----------
    cell : Cell
        The cell.
    status : str
        ``passed``, ``skipped`` (no worker can run it), ``interrupted`` (it did not come to its end), or what
        stopped it.
    run : Run or None
        The record in its folder, None if there is none.
    error : str
        What stopped it, or why it was skipped.
    worker : str or None
        Address of the worker that executed it, None where that is not known.
    attempts : int
        How often it was started.
    earlier : tuple of str
        What stopped each attempt before the last.
    unchanged : bool
        Whether an earlier sweep's execution was kept.
    """

    cell: SweepCell
    status: State
    run: RunRecord | None = None
    error: str = ""
    worker: str | None = None
    attempts: int = 0
    earlier: tuple[str, ...] = field(default=())
    unchanged: bool = False

    @property
    def seconds(self) -> float | None:
        """Wall time of the last attempt, None where it did not end."""
        return None if self.run is None else self.run.seconds

    def __str__(self) -> str:
        took = "" if self.seconds is None else f" in {self.seconds:.1f} s"
        tried = f", attempt {self.attempts}" if self.attempts > 1 else ""
        return f"{self.status}{took}{tried}" + (f": {self.error.splitlines()[0]}" if self.error else "")


def save_attempts(folder: Path, result: CellResult) -> CellResult:
    """Write what the record of a run does not hold, who executed it and how often, beside it; return `result`."""
    if folder.is_dir() and result.run is not None:
        attempts = {"worker": result.worker, "attempts": result.attempts, "earlier": result.earlier}
        write_json(folder / FILE, attempts)
    return result


def reusable_result(folder: Path, cell: SweepCell) -> CellResult | None:
    """Return the result that an earlier sweep left in `folder` if it passed with this very content, else None."""
    run = reusable(folder, cell.key)
    if run is None:
        return None
    try:
        row = read_json(folder / FILE, "count of attempts")
        worker, attempts, earlier = row["worker"], int(row["attempts"]), tuple(map(str, row["earlier"]))
    except (InputError, KeyError, TypeError, ValueError):
        # damaged, or that sweep ended between the end of the cell and its hearing of it: the result itself is whole
        return CellResult(cell, "passed", run, unchanged=True, attempts=1)
    return CellResult(
        cell, "passed", run, "", worker if worker is None else str(worker), attempts, earlier, unchanged=True
    )
