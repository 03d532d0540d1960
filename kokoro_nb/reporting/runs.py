"""The record of a notebook's execution, ``run.json``: what was executed, how it ended, and whether it still counts."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.versions import PACKAGE, versions
from kokoro_nb.storage import digest, json_ready, read_json, write_json

Status = Literal["running", "passed", "failed", "interrupted"]
FILE = "run.json"


@dataclass(frozen=True)
class Run:
    """One execution of a notebook.

    Attributes
    ----------
    notebook : str
        Its name, which is also the name of the folder.
    status : str
        ``running``, ``passed``, ``failed`` or ``interrupted``. A run that was killed stays ``running``.
    key : str
        `content_key` of what was executed.
    parameters : dict
        Those that were passed in, but for the folder.
    started : str
        UTC, ISO 8601.
    seconds : float or None
        Wall time, once it ended.
    error : str
        What stopped it: class and message.
    files : tuple of str
        What lay in the folder when it ended, relative to it; the executed copy counts only if it is listed.
    """

    notebook: str
    status: Status
    key: str
    parameters: Mapping[str, Any]
    started: str
    seconds: float | None = None
    error: str = ""
    files: tuple[str, ...] = field(default=())

    @property
    def executed(self) -> str | None:
        """Name of the executed copy, None while it is not whole."""
        name = f"{self.notebook}.ipynb"
        return name if name in self.files else None


def write_run(folder: str | Path, run: Run) -> Path:
    """Write ``run.json`` into `folder`."""
    return write_json(Path(folder) / FILE, asdict(run))


def read_run(folder: str | Path) -> Run | None:
    """Read the record in `folder`; None if there is none.

    Raises
    ------
    InputError
        If it is no record of this package.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    row = read_json(path, "record of a run")
    if (
        not isinstance(row, dict)
        or set(row) != {item.name for item in fields(Run)}
        or row["status"] not in get_args(Status)
    ):
        raise InputError(f"{path} is no record of a run; delete its folder and run the notebook again.")
    return Run(**{**row, "files": tuple(row["files"])})


def read_runs(root: str | Path) -> list[Run]:
    """Read the records of all notebooks below `root`, by name; none if nothing has been run."""
    found = (read_run(path.parent) for path in sorted(Path(root).glob(f"*/{FILE}")))
    return [run for run in found if run is not None]


def reusable(folder: str | Path, key: str) -> Run | None:
    """Return the record in `folder` if it passed with this very content and all its files are still there."""
    folder = Path(folder)
    run = read_run(folder)
    if run is None or run.status != "passed" or run.key != key:
        return None
    return run if run.executed and all((folder / name).is_file() for name in run.files) else None


def content_key(notebook: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """Return the digest of what decides a notebook's results: its cells, its parameters, the package, the versions."""
    cells = [(cell["cell_type"], cell["source"], cell["metadata"].get("tags", [])) for cell in notebook["cells"]]
    return digest(
        json.dumps(cells), json.dumps(json_ready(dict(parameters)), sort_keys=True), package_digest(), _versions_json()
    )


@cache
def package_digest() -> str:
    """Return the digest of this package's source files, by path and content."""
    sources = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".json"))
    return digest(*(part for path in sources for part in (path.relative_to(PACKAGE).as_posix(), path.read_bytes())))


def _versions_json() -> str:
    return json.dumps(versions(), sort_keys=True)
