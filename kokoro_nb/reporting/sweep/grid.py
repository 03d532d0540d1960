"""The cells of a sweep: every combination of the grid's values that a notebook declares; and how each ended."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from kokoro_nb.reporting.run_outcome import Status
from kokoro_nb.reporting.runs import RunRecord, content_key
from kokoro_nb.reporting.selection import (
    assign_parameters,
    declared_parameters,
    find_notebooks,
    read_notebook,
)
from kokoro_nb.reporting.sweep.spec import SweepSpec, value_text
from kokoro_nb.storage import digest, json_ready

READABLE = 48  # characters of a cell's name that show its values


@dataclass(frozen=True)
class SweepCell:
    """One execution of a sweep: a notebook with one combination of parameters.

    Attributes
    ----------
    name : str
        Name of its folder: the notebook, the values that vary, and a digest of all parameters.
    notebook : str
        Name of the notebook.
    source : str
        The notebook, as JSON.
    key : str
        `content_key` of notebook and parameters.
    parameters : dict
        Those that are passed to it, but for the folder.
    varied : tuple of str
        Names of those that are in the grid.
    resources : frozenset of str
        What a worker has to announce.
    takes_out_dir : bool
        Whether the notebook declares ``out_dir``.
    """

    name: str
    notebook: str
    source: str
    key: str
    parameters: Mapping[str, Any]
    varied: tuple[str, ...]
    resources: frozenset[str]
    takes_out_dir: bool

    @property
    def label(self) -> str:
        """The notebook and what is particular to this cell, for reading."""
        values = ", ".join(f"{name} {value_text(name, self.parameters[name])}" for name in self.varied)
        return f"{self.notebook}: {values}" if values else self.notebook


@dataclass(frozen=True)
class CellResult:
    """How one cell ended.

    Attributes
    ----------
    cell : SweepCell
        The cell.
    status : str
        ``passed``, ``skipped`` (no worker can run it), ``interrupted`` (it did not come to its end), or what
        stopped it.
    run : RunRecord or None
        The record in its folder, None if there is none.
    error : str
        What stopped it, or why it was skipped.
    unchanged : bool
        Whether an earlier sweep's execution was kept.
    """

    cell: SweepCell
    status: Status | Literal["skipped"]
    run: RunRecord | None = None
    error: str = ""
    unchanged: bool = False

    @property
    def seconds(self) -> float | None:
        """Wall time of the last attempt, None where it did not end."""
        return None if self.run is None else self.run.seconds

    def __str__(self) -> str:
        took = "" if self.seconds is None else f" in {self.seconds:.1f} s"
        return f"{self.status}{took}" + (f": {self.error.splitlines()[0]}" if self.error else "")


def expand(spec: SweepSpec, folder: str | Path | None = None) -> list[SweepCell]:
    """Return the cells of a sweep, notebook by notebook, the last parameter of the grid varying fastest.

    A notebook takes the parameters that it declares; a value that it does not know makes no second cell of it.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.
    folder : path, optional
        Where the notebooks are; the project's by default.

    Raises
    ------
    InputError
        If a notebook or a parameter is unknown, or a notebook cannot be read.
    """
    paths = find_notebooks(spec.notebooks, folder)
    notebooks = {path.stem: read_notebook(path) for path in paths}
    declared = {name: declared_parameters(notebook) for name, notebook in notebooks.items()}
    given = assign_parameters(declared, {**spec.grid, **spec.fixed})
    cells = []
    for name, notebook in notebooks.items():
        varied = tuple(parameter for parameter in spec.grid if parameter in given[name])
        fixed = {parameter: value for parameter, value in spec.fixed.items() if parameter in given[name]}
        takes_out_dir = "out_dir" in declared[name]
        for values in product(*(spec.grid[parameter] for parameter in varied)):
            parameters = {**dict(zip(varied, values, strict=True)), **fixed}
            cells.append(
                SweepCell(
                    _name(name, parameters, varied),
                    name,
                    json.dumps(notebook),
                    content_key(notebook, parameters),
                    parameters,
                    varied,
                    _needed(spec, parameters),
                    takes_out_dir,
                )
            )
    return cells


def _name(notebook: str, parameters: Mapping[str, Any], varied: tuple[str, ...]) -> str:
    values = "-".join(value_text(name, parameters[name]) for name in varied)
    readable = re.sub(r"[^A-Za-z0-9.-]+", "_", values)[:READABLE].strip("._-")
    mark = digest(json.dumps(json_ready(dict(parameters)), sort_keys=True))[:10]
    return "-".join(part for part in (notebook, readable, mark) if part)


def _needed(spec: SweepSpec, parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the resources that the values need; a list needs what each of its items needs."""
    needed: set[str] = set()
    for name, needs in spec.requires.items():
        value = parameters.get(name)
        for item in value if isinstance(value, list) else [value]:
            needed.update(needs.get(value_text(name, item), ()))
    return frozenset(needed)
