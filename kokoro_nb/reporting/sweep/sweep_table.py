"""The results of a sweep: a Parquet table with a row for each finding of each cell, and the report with its pages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.reporting.cells import Body
from kokoro_nb.reporting.html import Page, read_page
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.report_files import write_pages
from kokoro_nb.reporting.runs import RunRecord
from kokoro_nb.reporting.sweep.grid import CellResult, value_text
from kokoro_nb.storage import atomic

ENDED = ("cell", "notebook", "status", "seconds", "error")
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
    results : sequence of CellResult
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
    columns |= {"cell": [result.cell.name for result, _ in rows]}
    columns |= {"notebook": [result.cell.notebook for result, _ in rows]}
    columns |= {name: [getattr(result, name) for result, _ in rows] for name in ENDED[2:]}
    columns |= {name: [_found(finding)[name] for _, finding in rows] for name in FOUND}
    numbers = dict.fromkeys(("seconds", "value", "limit"), pyarrow.float64())
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


@dataclass(frozen=True)
class SkippedPage(Page):
    """A cell that no worker could run."""

    @property
    def state(self) -> str:
        """How it ended, in a word."""
        return "skipped"


def write_report(out_dir: str | Path, results: Sequence[CellResult], root: str | Path) -> Path:
    """Render every cell of a sweep, those that were not executed too, and an index; return the path of the index.

    Parameters
    ----------
    out_dir : path
        Where ``<cell>.html`` and ``index.html`` are written.
    results : sequence of CellResult
        A cell each.
    root : path
        The folder of the cells' folders.
    """
    return write_pages([_page(result, Path(root)) for result in results], Path(out_dir))


def _page(result: CellResult, root: Path) -> Page:
    cell = result.cell
    if result.run is not None:
        page = read_page(result.run, root / cell.name)
        return replace(page, body=replace(page.body, title=cell.label))
    body, about = Body(title=cell.label), {"weights": cell.parameters.get("weights", "not recorded")}
    if result.status == "skipped":
        finding = Finding("runs", "skip", f"{cell.label} is executed.", str(about["weights"]), reason=result.error)
        run = RunRecord(cell.name, "passed", cell.key, cell.parameters, now())  # it stopped nowhere: it did not begin
        return SkippedPage(run, (finding,), about, body)
    run = RunRecord(cell.name, result.status, cell.key, cell.parameters, now(), error=result.error)
    return Page(run, (), about, body)
