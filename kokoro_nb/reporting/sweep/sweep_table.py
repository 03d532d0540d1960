"""The results of a sweep as one Parquet table in long form: a row for each finding of each cell."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.reporting.sweep.cell_result import CellResult
from kokoro_nb.reporting.sweep.spec import value_text
from kokoro_nb.storage import atomic

ENDED = ("cell", "notebook", "status", "seconds", "worker", "attempts", "error", "earlier")
FOUND = ("kind", "verdict", "statement", "on_backend", "value", "relation", "limit", "unit", "tap", "reason")


def write_table(path: str | Path, results: Sequence[CellResult], root: str | Path) -> Path:
    """Write the results of a sweep, whole or not at all, and return the path.

    The columns are the parameters of the notebooks, each under its own name or, if that is taken, as
    ``parameter_<name>``; how the cell ended (`ENDED`); and its finding (`FOUND`), null for a cell that left none. A
    figure that is NaN stays NaN, and one that is not there is null.

    Parameters
    ----------
    path : path
        The file.
    results : sequence of Result
        A cell each.
    root : path
        The folder of the cells' folders.
    """
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {}
    names = list(dict.fromkeys(name for result in results for name in result.cell.parameters))
    rows = [(result, finding) for result in results for finding in _findings(result, Path(root))]
    for name in names:
        column = f"parameter_{name}" if name in (*ENDED, *FOUND) else name
        columns[column] = _parameter(name, [result.cell.parameters.get(name) for result, _ in rows])
    columns |= {name: [_ended(result)[name] for result, _ in rows] for name in ENDED}
    columns |= {name: [_found(finding)[name] for _, finding in rows] for name in FOUND}
    numbers = {"seconds": pyarrow.float64(), "attempts": pyarrow.int64()}
    numbers |= {"value": pyarrow.float64(), "limit": pyarrow.float64(), "earlier": pyarrow.list_(pyarrow.string())}
    fixed = {name: numbers.get(name, pyarrow.string()) for name in (*ENDED, *FOUND)}
    table = pyarrow.table({name: pyarrow.array(values, fixed.get(name)) for name, values in columns.items()})
    with atomic(path) as draft:
        parquet.write_table(table, draft)
    return Path(path)


def _findings(result: CellResult, root: Path) -> Sequence[Finding | None]:
    path = root / result.cell.name / "findings.json"
    if result.run is None or not path.is_file():
        return (None,)
    try:
        return read_findings(path)[0] or (None,)
    except InputError:  # the cell was stopped while it wrote, or wrote something else: its page says so
        return (None,)


def _ended(result: CellResult) -> dict[str, Any]:
    of_cell = {"cell": result.cell.name, "notebook": result.cell.notebook}
    return {name: of_cell.get(name) or getattr(result, name) for name in ENDED} | {"earlier": list(result.earlier)}


def _found(finding: Finding | None) -> dict[str, Any]:
    if finding is None:
        return dict.fromkeys(FOUND)
    given = {name: getattr(finding, name) for name in FOUND if name != "on_backend"}
    return {**given, "on_backend": finding.backend}


def _parameter(name: str, values: list[Any]) -> list[Any]:
    """Return a column of values as they are, or as text where they are of several kinds, which no column can hold."""
    import pyarrow

    try:
        pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, TypeError):
        return [None if value is None else value_text(name, value) for value in values]
    return values
