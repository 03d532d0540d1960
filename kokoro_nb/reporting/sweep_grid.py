"""What a sweep is to run: a TOML file with a grid of parameters, and its cells, one for each combination."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.runs import RunRecord, content_key
from kokoro_nb.reporting.selection import assign_parameters, find_notebooks, read_notebook
from kokoro_nb.storage import digest, json_ready

if TYPE_CHECKING:
    from nbformat import NotebookNode

FORMS = {
    "notebook": 'a number or a name, or a list of them: notebook = "13"',
    **{key: f"a table: begin it with [{key}]" for key in ("grid", "fixed", "requires")},
    "retries": "a whole number, 0 or more",
    "timeout": "a number of seconds above 0",
}
"""What the file may have, and what each has to be."""
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
    import tomllib  # of Python 3.11, as the workbook takes it

    path = Path(path)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no sweep at {path}; check the path.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"The sweep at {path} cannot be read as TOML ({error}); correct it.") from error
    for key, value in {"notebook": None, **given}.items():
        if key not in FORMS:
            raise InputError(f"A sweep has no '{key}'; it may have {', '.join(FORMS)}.")
        if not _is_sound(key, value):
            raise InputError(f"'{key}' of a sweep has to be {FORMS[key]}, not {value!r}.")
    grid, fixed, requires = (given.get(key, {}) for key in ("grid", "fixed", "requires"))
    for name, values in {**grid, **{name: [value] for name, value in fixed.items()}}.items():
        if name == "out_dir":
            raise InputError("The parameter 'out_dir' is set for each cell; choose the folder with --out instead.")
        if not isinstance(values, list) or not values:
            raise InputError(f"The parameter '{name}' in [grid] needs a list; a single value goes into [fixed].")
        texts = [value_text(name, value) for value in values]
        for text in texts:
            if texts.count(text) > 1:
                raise InputError(f"The parameter '{name}' in [grid] has the value {text} twice; leave one out.")
        if name in grid and name in fixed:
            raise InputError(f"The parameter '{name}' is both in [grid] and in [fixed]; leave it out of one.")
    for name, needs in requires.items():
        if name not in (*grid, *fixed):
            raise InputError(f"[requires] names the parameter '{name}', which is neither in [grid] nor in [fixed].")
        if not isinstance(needs, dict) or not all(map(_names, needs.values())):
            raise InputError(f"[requires] needs a value of '{name}' and a resource: {name}.coreml = \"coreml\".")
    grid = {name: tuple(values) for name, values in grid.items()}
    requires = {name: {value: _names(need) for value, need in needs.items()} for name, needs in requires.items()}
    limits = {key: given[key] for key in ("retries", "timeout") if key in given}
    return SweepSpec(path.stem, _names(given["notebook"]), grid, fixed, requires, **limits)


def _is_sound(key: str, value: Any) -> bool:
    if key == "retries":
        return type(value) is int and value >= 0
    if key == "timeout":
        return type(value) in (int, float) and value > 0
    return bool(_names(value)) if key == "notebook" else isinstance(value, dict)


def _names(found: Any) -> tuple[str, ...]:
    """Return a name, or a list of them, as a tuple; nothing of what is neither."""
    names = [found] if isinstance(found, str) else found
    sound = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    return tuple(dict.fromkeys(names)) if sound else ()


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


@dataclass(frozen=True)
class SweepCell:
    """One execution of a sweep: a notebook with one combination of parameters.

    Attributes
    ----------
    run : RunRecord
        Its record before it has begun. Its name, that of its folder, is made of the notebook, the values that vary and
        a digest of all parameters.
    notebook : str
        Name of the notebook.
    source : NotebookNode
        The notebook.
    label : str
        The notebook and what is particular to this cell, for reading.
    resources : frozenset of str
        What a worker has to announce.
    """

    run: RunRecord
    notebook: str
    source: "NotebookNode"
    label: str
    resources: frozenset[str]


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
    notebooks = {path.stem: read_notebook(path) for path in find_notebooks(spec.notebooks, folder)}
    given = assign_parameters(notebooks, {**spec.grid, **spec.fixed})
    cells = []
    for name, notebook in notebooks.items():
        varied = [parameter for parameter in spec.grid if parameter in given[name]]
        fixed = {parameter: value for parameter, value in spec.fixed.items() if parameter in given[name]}
        for values in product(*(spec.grid[parameter] for parameter in varied)):
            parameters = {**dict(zip(varied, values, strict=True)), **fixed}
            texts = {parameter: value_text(parameter, parameters[parameter]) for parameter in varied}
            readable = re.sub(r"[^A-Za-z0-9.-]+", "_", "-".join(texts.values()))[:READABLE].strip("._-")
            mark = digest(json.dumps(json_ready(parameters), sort_keys=True))[:10]
            key = content_key(notebook, parameters)
            run = RunRecord("-".join(filter(None, (name, readable, mark))), "running", key, parameters)
            label = ": ".join(filter(None, (name, ", ".join(map(" ".join, texts.items())))))
            cells.append(SweepCell(run, name, notebook, label, _needed(spec, parameters)))
    return cells


def _needed(spec: SweepSpec, parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the resources that the values need; a list needs what each of its items needs."""
    needed: set[str] = set()
    for name, needs in spec.requires.items():
        value = parameters.get(name)
        for item in value if isinstance(value, list) else [value]:
            needed.update(needs.get(value_text(name, item), ()))
    return frozenset(needed)
