"""What a sweep is to run, a TOML file with a grid of parameters, its cells, and how each of them ended."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.run_outcome import Status
from kokoro_nb.reporting.runs import RunRecord, content_key
from kokoro_nb.reporting.selection import assign_parameters, declared_parameters, find_notebooks, read_notebook
from kokoro_nb.storage import digest, json_ready

KEYS = ("notebook", "grid", "fixed", "requires", "retries", "timeout")
READABLE = 48  # characters of a cell's name that show its values


@dataclass(frozen=True)
class SweepSpec:
    """A sweep as its file describes it.

    Attributes
    ----------
    name : str
        Name of the file without its ending.
    notebooks : tuple of str
        Numbers or names.
    grid : dict
        Parameter -> the values that it takes in turn; every combination is a cell of the sweep.
    fixed : dict
        Parameters that have one value throughout.
    requires : dict
        Parameter -> value, as text -> resources that a worker has to announce.
    retries : int
        How often a cell that failed is executed again.
    timeout : float or None
        Seconds after which a cell is stopped; None for no limit.
    """

    name: str
    notebooks: tuple[str, ...]
    grid: Mapping[str, tuple[Any, ...]]
    fixed: Mapping[str, Any]
    requires: Mapping[str, Mapping[str, tuple[str, ...]]]
    retries: int = 0
    timeout: float | None = None


def read_spec(path: str | Path) -> SweepSpec:
    """Read a sweep's file.

    Raises
    ------
    InputError
        If it is absent, is no TOML, has a key that nothing reads, or a value of another kind than it should have.
    """
    path = Path(path)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no sweep at {path}; check the path.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"The sweep at {path} cannot be read as TOML ({error}); correct it.") from error
    for key in given:
        if key not in KEYS:
            raise InputError(f"A sweep has no '{key}'; it may have {', '.join(KEYS)}.")
    fixed = _mapping(given, "fixed")
    grid = {name: _values(name, values) for name, values in _mapping(given, "grid").items()}
    for name, value in fixed.items():
        if name in grid:
            raise InputError(f"The parameter '{name}' is both in [grid] and in [fixed]; leave it out of one.")
        value_text(name, value)
    if "out_dir" in (*grid, *fixed):
        raise InputError("The parameter 'out_dir' is set for each cell; choose the folder with --out instead.")
    return SweepSpec(
        path.stem,
        _names(given.get("notebook"), "notebook", 'a number or a name, or a list of them: notebook = "13"'),
        grid,
        fixed,
        _requires(given, (*grid, *fixed)),
        _number(given, "retries", 0, int),
        _number(given, "timeout", None, (int, float)),
    )


def value_text(name: str, value: Any) -> str:
    """Return a parameter's value as ``[requires]`` names it and a label shows it: text as it is, the rest as JSON.

    Raises
    ------
    InputError
        If it cannot be passed to a notebook.

    >>> value_text("backend", "coreml"), value_text("exact", True), value_text("buckets", [3, 10])
    ('coreml', 'true', '[3, 10]')
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(json_ready(value), ensure_ascii=False)
    except TypeError as error:
        raise InputError(f"The parameter '{name}' has a value of no plain kind ({error}); write it as text.") from error


def _values(name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise InputError(f"The parameter '{name}' in [grid] needs a list of values; a single one goes into [fixed].")
    texts = [value_text(name, value) for value in values]
    for text in texts:
        if texts.count(text) > 1:
            raise InputError(f"The parameter '{name}' in [grid] has the value {text} twice; leave one out.")
    return tuple(values)


def _requires(given: Mapping[str, Any], parameters: tuple[str, ...]) -> dict[str, dict[str, tuple[str, ...]]]:
    requires = {}
    for name, needs in _mapping(given, "requires").items():
        if name not in parameters:
            raise InputError(f"[requires] names the parameter '{name}', which is neither in [grid] nor in [fixed].")
        if not isinstance(needs, dict):
            raise InputError(f"[requires] needs a value of '{name}' and a resource: {name}.coreml = \"coreml\".")
        form = f'a resource or a list of them: {name}.coreml = "coreml"'
        requires[name] = {value: _names(need, f"requires.{name}.{value}", form) for value, need in needs.items()}
    return requires


def _mapping(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = given.get(key, {})
    if not isinstance(found, dict):
        raise InputError(f"'{key}' is a table of a sweep; begin it with [{key}].")
    return found


def _names(found: Any, key: str, form: str) -> tuple[str, ...]:
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"'{key}' of a sweep has to be {form}.")
    return tuple(dict.fromkeys(names))


def _number(given: Mapping[str, Any], key: str, default: Any, kinds: Any) -> Any:
    found = given.get(key, default)
    if found is default:
        return found
    if isinstance(found, bool) or not isinstance(found, kinds) or not (found >= 0 if kinds is int else found > 0):
        kind = "a whole number, 0 or more" if kinds is int else "a number of seconds above 0"
        raise InputError(f"'{key}' of a sweep has to be {kind}, not {found!r}.")
    return found


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
