"""The files of the report: a page for each notebook and an index of them, also while the notebooks run."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.html import GENERATOR, Page, read_page, render_index, render_page
from kokoro_nb.reporting.runs import RunRecord, read_runs
from kokoro_nb.storage import write_text


class Report:
    """A report that is written while its notebooks run: the index at once, and each page when its run has changed.

    Parameters
    ----------
    run_dir : Path
        The folder with a folder per notebook, as `run_notebooks` leaves it.
    out_dir : Path
        Where ``<name>.html`` and ``index.html`` are written, each whole or not at all. Pages of an earlier report for
        which there is no run any more are removed.
    notebooks : collection of str, optional
        Names of those that there are: what was run under another one is shown, and counts for nothing.
    awaited : collection of str, optional
        Names of the notebooks that are going to be run.
    titles : mapping, optional
        Titles of pages by the names of their folders; the first heading of its notebook by default.
    """

    def __init__(
        self,
        run_dir: Path,
        out_dir: Path,
        notebooks: Collection[str] | None = None,
        awaited: Collection[str] = (),
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self._run_dir, self._out_dir, self._notebooks, self._awaited = run_dir, out_dir, notebooks, awaited
        self._titles = titles or {}
        self._written: dict[str, tuple[RunRecord, Page, int]] = {}

    def update(self) -> Path:
        """Write what has changed since the last time, and return the path of the index.

        Raises
        ------
        InputError
            If nothing has been run and nothing is awaited, or the folder cannot be written.
        """
        runs = {run.notebook: _current(run, self._notebooks) for run in read_runs(self._run_dir)}
        for name in self._awaited:
            runs.setdefault(name, RunRecord(name, "waiting", "", {}, ""))
        if not runs:
            raise InputError(f"Nothing has been run in {self._run_dir}; run the notebooks first: kokoro-nb run.")
        self._written = {name: self._page(runs[name]) for name in sorted(runs)}
        pages = [page for _, page, _ in self._written.values()]
        sizes = {page.name: size for _, page, size in self._written.values() if size}
        return write_text(self._out_dir / "index.html", render_index(pages, sizes))

    def close(self) -> Path:
        """Write what is left to write, await nothing, remove what an earlier report left; return the path of the index.

        Raises
        ------
        InputError
            As `update` does.
        """
        self._awaited = ()
        index = self.update()
        written = {index.name, *(page.file for _, page, _ in self._written.values() if page.written)}
        for path in self._out_dir.glob("*.html"):
            if path.name not in written and GENERATOR.encode() in path.read_bytes()[:1000]:
                path.unlink()
        return index

    def _page(self, run: RunRecord) -> tuple[RunRecord, Page, int]:
        if (known := self._written.get(run.notebook)) is not None and known[0] == run:
            return known
        page = read_page(run, self._run_dir / run.notebook, self._out_dir)
        page.body.title = self._titles.get(run.notebook, page.body.title)
        size = write_text(self._out_dir / page.file, render_page(page)).stat().st_size if page.written else 0
        return run, page, size


def _current(run: RunRecord, notebooks: Collection[str] | None) -> RunRecord:
    if notebooks is None or run.notebook in notebooks or (run.source and Path(run.source).is_file()):
        return run
    reason = (
        f"There is no notebook {run.notebook} any more, it was renamed or removed after this run; delete its folder if "
        "its results are no longer wanted."
    )
    return replace(run, status="removed", reason=reason)
