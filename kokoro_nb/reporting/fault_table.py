"""Which planted fault turns each check of the notebooks red: what `study checks --record` keeps, and its page.

The table lies beside the notebooks, so that a report can show it: to study them all takes an hour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment
from kokoro_nb.markup import table as rows_table
from kokoro_nb.reporting.selection import notebooks_folder
from kokoro_nb.storage import read_json, write_json

FILE = "check_faults.json"
PAGE = "check_faults.html"
COMMAND = "kokoro-nb study checks --record --notebooks"


@dataclass(frozen=True)
class FaultTable:
    """The recorded checks.

    Attributes
    ----------
    notebooks : mapping
        By the notebook's name: ``commit`` and ``versions`` that it was studied with, ``parameters``, ``seconds`` of
        processor time, and ``rows``, one for each check, as `check_faults.CheckedBy` has them.
    """

    notebooks: Mapping[str, Mapping[str, Any]]

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """Every check of every notebook."""
        return [row for name in sorted(self.notebooks) for row in self.notebooks[name]["rows"]]

    @property
    def statement(self) -> str:
        """How many checks there are, and of how many a fault is known, in one sentence."""
        red = sum(bool(row["killed_by"]) for row in self.rows)
        whole = (
            f"{red} of {len(self.rows)} checks of {len(self.notebooks)} notebooks are turned red by a planted fault."
        )
        alone = sum(row["verdict"] == "fail" for row in self.rows)
        return f"{whole} Red at these parameters without one: {alone}." if alone else whole

    def parts(self) -> list[Fragment]:
        """Return the tables of the page: what was run, and the checks of each notebook."""
        runs = [
            {
                "notebook": name,
                "commit": one["commit"] or "not recorded",
                "parameters": ", ".join(f"{key} {value}" for key, value in one["parameters"].items()),
                "checks": len(one["rows"]),
                "turned red": sum(bool(row["killed_by"]) for row in one["rows"]),
                "processor (s)": one["seconds"],
            }
            for name, one in sorted(self.notebooks.items())
        ]
        whole = rows_table(runs, f"Made by: {COMMAND} NN. {self.statement}")
        return [
            whole,
            *(rows_table([_shown(row) for row in one["rows"]], name) for name, one in sorted(self.notebooks.items())),
        ]


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cell": row["cell"],
        "check": row["statement"],
        "backend": row["backend"],
        "without a fault": row["verdict"],
        "turned red by": ", ".join(row["killed_by"]) or "no fault",
    }


def read_fault_table(folder: Path | None = None) -> FaultTable:
    """Return the table beside the notebooks of `folder`, by default the project's; empty where there is none.

    Raises
    ------
    InputError
        If the file is damaged, or something else.
    """
    try:
        path = (folder or notebooks_folder()) / FILE
    except InputError:  # a report of other notebooks, outside a checkout
        return FaultTable({})
    known = read_json(path, "the table of checks and faults") if path.exists() else {}
    if not isinstance(known, dict) or not all(isinstance(one, dict) and "rows" in one for one in known.values()):
        raise InputError(f"{path} is no table of checks and faults; make it again: {COMMAND} NN.")
    return FaultTable(known)


def record_checks(studied: Mapping[str, Mapping[str, Any]], present: Sequence[str], folder: Path | None = None) -> Path:
    """Put what was studied into the table, in place of what it says of these notebooks; return its path.

    Parameters
    ----------
    studied : mapping
        As `FaultTable.notebooks`.
    present : sequence of str
        Names of the notebooks that there are; of others nothing is kept.
    folder : path, optional
        Where the notebooks are.
    """
    folder = folder or notebooks_folder()
    known = {**read_fault_table(folder).notebooks, **studied}
    return write_json(folder / FILE, {name: known[name] for name in sorted(known) if name in present})
