"""What a sweep is to run: a TOML file with notebooks, a grid of parameters, and what some of their values need."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready

KEYS = ("notebook", "grid", "fixed", "requires", "retries", "timeout")


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
