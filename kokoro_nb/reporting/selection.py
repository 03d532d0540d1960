"""Which notebooks there are, which parameters each declares, and what a value on the command line means."""

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.versions import PACKAGE, project_folder

if TYPE_CHECKING:
    from nbformat import NotebookNode

PATTERN = "[0-9][0-9]_*.ipynb"
KINDS: dict[type, str] = {
    **dict.fromkeys((int, float), "a number"),
    **{bool: "true or false", str: "a text", list: "a list", dict: "a mapping"},
}
WORDS = {"true": True, "false": False, "none": None, "null": None}


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
