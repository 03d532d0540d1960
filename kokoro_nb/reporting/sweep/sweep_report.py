"""The report of a sweep: the report of notebooks, with a page for each cell, those that were not executed included."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kokoro_nb.findings import Finding
from kokoro_nb.reporting.cells import Body
from kokoro_nb.reporting.html import Page, read_page
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.report_files import write_pages
from kokoro_nb.reporting.runs import RunRecord
from kokoro_nb.reporting.sweep.cell_result import CellResult


@dataclass(frozen=True)
class SkippedPage(Page):
    """A cell that no worker could run."""

    @property
    def state(self) -> str:
        """How it ended, in a word."""
        return "skipped"


def write_report(out_dir: str | Path, results: Sequence[CellResult], root: str | Path) -> Path:
    """Render every cell of a sweep and an index of them, and return the path of the index.

    Parameters
    ----------
    out_dir : path
        Where ``<cell>.html`` and ``index.html`` are written.
    results : sequence of Result
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
