"""What is to be run: which notebooks there are, which parameters each declares, and the grid of a sweep.

A sweep is a TOML file with a grid of parameters; its cells are one execution for each combination.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.runs import RunRecord, content_key
from kokoro_nb.reporting.versions import PACKAGE, project_folder
from kokoro_nb.storage import digest, json_ready

if TYPE_CHECKING:
    from nbformat import NotebookNode

PATTERN = "[0-9][0-9]_*.ipynb"
KINDS: dict[type, str] = {
    **dict.fromkeys((int, float), "a number"),
    **{bool: "true or false", str: "a text", list: "a list", dict: "a mapping"},
}
WORDS = {"true": True, "false": False, "none": None, "null": None}
FORMS = {
    "notebook": 'a number or a name, or a list of them: notebook = "13"',
    **{key: f"a table: begin it with [{key}]" for key in ("grid", "fixed", "requires")},
    "retries": "a whole number, 0 or more",
    "timeout": "a number of seconds above 0",
}
"""What the file of a sweep may have, and what each has to be."""
READABLE = 48  # characters of a cell's name that show its values


def notebooks_folder() -> Path:
    """Return ``notebooks/`` of the project that the working directory lies in, else of the one this package lies in.

    Raises
    ------
    InputError
        If there is neither.
    """
    for project in (project_folder(), project_folder(PACKAGE)):
        if project is not None and (project / "notebooks").is_dir():
            return project / "notebooks"
    raise InputError("There are no notebooks here; change to a checkout of the project, where notebooks/ is.")


def find_notebooks(selection: Sequence[str] = (), folder: str | Path | None = None) -> list[Path]:
    """Return the paths of the selected notebooks: the project's in order, then others; all of the project's if empty.

    Parameters
    ----------
    selection : sequence of str
        Paths of notebooks anywhere; numbers (``03``) or names (``03_decoder_nan``, with or without ``.ipynb``) of the
        project's notebooks and of those in the working directory, which go before those of the same name.
    folder : path, optional
        Where the project's notebooks are, ``NN_<name>.ipynb``: see `notebooks_folder`.

    Raises
    ------
    InputError
        If there are none, one that is selected is not there, or a number or name fits several.
    """
    try:
        place = notebooks_folder() if folder is None else Path(folder)
        found = sorted(place.glob(PATTERN))
        if not found:
            raise InputError(f"{place} holds no notebook named like 01_name.ipynb; check the folder.")
    except InputError:
        if not selection:
            raise
        found = []
    known = {path.resolve(): path for path in (*found, *sorted(Path.cwd().glob("*.ipynb")))}
    chosen: dict[Path, Path] = {}
    for wanted in selection:
        if wanted.endswith(".ipynb") and Path(wanted).is_file():
            chosen[Path(wanted).resolve()] = Path(wanted)
            continue
        matches = [path for path in known if wanted in (path.stem, path.name, _number(path))]
        if not matches:
            there = ", ".join(path.stem for path in known) or "none here"
            raise InputError(f"There is no notebook '{wanted}'; there are: {there}.")
        here = [path for path in matches if path.parent == Path.cwd().resolve() and wanted != _number(path)]
        matches = here or matches
        if len(matches) > 1:
            raise InputError(f"'{wanted}' may be {' or '.join(map(str, matches))}; give the path of the one to run.")
        chosen[matches[0]] = known[matches[0]]
    name, count = next(iter(Counter(path.stem for path in chosen).most_common(1)), ("", 0))
    if count > 1:
        raise InputError(f"Two of the selected notebooks are named {name}; run one at a time, or rename one.")
    ordered = [path for path in known if path in chosen] + [path for path in chosen if path not in known]
    return [chosen[path] for path in ordered] or found


def notebook_names(selection: Sequence[str] = ()) -> set[str]:
    """Return the names of the notebooks that there are: the project's, those of the working directory, the selected."""
    here = {path.stem for path in (*Path.cwd().glob("*.ipynb"), *map(Path, selection))}
    try:
        return here | {path.stem for path in find_notebooks()}
    except InputError:
        return here


def _number(path: Path) -> str:
    return path.stem[:2] if fnmatch(path.name, PATTERN) else path.stem


def read_notebook(path: str | Path) -> "NotebookNode":
    """Read a notebook.

    Raises
    ------
    InputError
        If it cannot be read as one.
    """
    import nbformat

    try:
        notebook = nbformat.read(Path(path), as_version=4)
        nbformat.validate(notebook)  # reading tells of what is wrong in a log alone
    except Exception as error:  # whatever its conversion from other versions stumbles over
        first = next(iter(str(error).splitlines()), type(error).__name__)[:200]
        raise InputError(f"{path} cannot be read as a notebook ({first}); check the file.") from error
    return notebook


def declared_parameters(notebook: "NotebookNode") -> dict[str, str]:
    """Return the names that the cell tagged ``parameters`` assigns, as papermill reads them, with their defaults."""
    from papermill.translators import PythonTranslator

    tagged = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    return {parameter.name: parameter.default for parameter in next(map(PythonTranslator.inspect, tagged), ())}


def require_kinds(notebook: "NotebookNode", given: Mapping[str, Any], name: str) -> None:
    """Raise if a value is of another kind than the default in the cell tagged ``parameters``, before anything runs.

    Raises
    ------
    InputError
        If a list is given for what is none, a text for a number, or the other way round.
    """
    for parameter, default in declared_parameters(notebook).items():
        value = given.get(parameter)
        try:
            wanted = KINDS.get(type(ast.literal_eval(default)))
        except (ValueError, SyntaxError):  # an expression
            continue
        if value is not None and wanted and KINDS.get(type(value)) != wanted:
            raise InputError(f"The parameter '{parameter}' of {name} is {wanted}, not {value!r}; see its default.")


def assign_parameters(
    notebooks: "Mapping[str, NotebookNode]", parameters: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return, for each notebook by its name, those of `parameters` that it declares.

    Raises
    ------
    InputError
        If no notebook declares one of them.
    """
    declared = {name: declared_parameters(notebook) for name, notebook in notebooks.items()}
    known = dict.fromkeys(name for names in declared.values() for name in names)
    for name in parameters:
        if name not in known:
            has = ", ".join(known) or "no parameters"
            raise InputError(f"No selected notebook has a parameter '{name}'; they have: {has}.")
    return {
        notebook: {name: value for name, value in parameters.items() if name in names}
        for notebook, names in declared.items()
    }


def parse_value(text: str) -> Any:
    """Return what `text` means as the value of a parameter, by papermill's rules and YAML's brackets and quotes.

    Raises
    ------
    InputError
        If it opens a list, a mapping or a quotation and does not close it.

    >>> [parse_value(text) for text in ("24", "1e-4", "true", "None", "yes", "[eager, onnxruntime]", "'24'")]
    [24, 0.0001, True, None, 'yes', ['eager', 'onnxruntime'], '24']
    """
    import yaml

    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for convert in (int, float):
        with suppress(ValueError):
            return convert(text)
    if not text.startswith(("[", "{", "'", '"')):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "it does not end as it begins"
        kind = f"no YAML list, mapping or quoted text ({problem})"
        raise InputError(f"The value {text} is {kind}; check its end.") from error


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
