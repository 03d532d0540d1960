"""The report: one HTML file per notebook that needs nothing else and loads nothing, and an index of all verdicts."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.numerics.findings import Finding, read_findings
from kokoro_nb.reporting.cells import Body, render_cells
from kokoro_nb.reporting.fragments import ORDER, board, chip, overall, resource, tally
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.runs import Run, read_runs
from kokoro_nb.reporting.selection import read_notebook
from kokoro_nb.reporting.versions import commit, versions
from kokoro_nb.storage import write_text

STATES = {"passed": "completed", "failed": "stopped", "interrupted": "interrupted", "running": "interrupted"}


@dataclass(frozen=True)
class Page:
    """One notebook as it is reported: its run, its findings and what they say of themselves, its cells."""

    run: Run
    findings: tuple[Finding, ...]
    about: Mapping[str, Any]
    body: Body

    @property
    def name(self) -> str:
        """Name of the notebook."""
        return self.run.notebook

    @property
    def file(self) -> str:
        """Name of the page."""
        return f"{self.name}.html"

    @property
    def title(self) -> str:
        """Its first heading, or its name."""
        return self.body.title or self.name

    @property
    def state(self) -> str:
        """How the execution ended, in a word."""
        return STATES[self.run.status]

    @property
    def verdict(self) -> str:
        """One verdict for the whole notebook."""
        return overall(self.findings, completed=self.run.status == "passed")

    @property
    def counts(self) -> Mapping[str, int]:
        """How many findings have each verdict."""
        return Counter(finding.verdict for finding in self.findings)

    @property
    def weights(self) -> str:
        """Label of the weights that it was measured on."""
        return str(self.about.get("weights", "not recorded"))

    @property
    def took(self) -> str:
        """Wall time, for reading."""
        return "" if self.run.seconds is None else duration(self.run.seconds)

    @property
    def started(self) -> str:
        """When it was executed, UTC, to the minute."""
        return clock(self.run.started)


def render_report(run_dir: str | Path, out_dir: str | Path) -> Path:
    """Render every notebook that was run and an index of them, and return the path of the index.

    Parameters
    ----------
    run_dir : path
        The folder with a folder per notebook, as `run_notebooks` leaves it.
    out_dir : path
        Where ``<name>.html`` and ``index.html`` are written, each whole or not at all.

    Raises
    ------
    InputError
        If nothing has been run, or a record cannot be read.
    """
    pages = [read_page(run, Path(run_dir) / run.notebook) for run in read_runs(run_dir)]
    if not pages:
        raise InputError(f"Nothing has been run in {run_dir}; run the notebooks first: kokoro-nb run.")
    out_dir = Path(out_dir)
    sizes = {page.name: write_text(out_dir / page.file, render_page(page)).stat().st_size for page in pages}
    return write_text(out_dir / "index.html", render_index(pages, sizes))


def read_page(run: Run, folder: Path) -> Page:
    """Read what `run` left in `folder`; an executed copy that may be half-written is not opened."""
    findings: tuple[Finding, ...] = ()
    about: Mapping[str, Any] = {}
    if (folder / "findings.json").is_file():
        findings, about = read_findings(folder / "findings.json")
    copy = folder / run.executed if run.executed else None
    body = render_cells(read_notebook(copy), run.error) if copy is not None and copy.is_file() else Body()
    return Page(run, findings, about, body)


def render_page(page: Page) -> str:
    """Return the HTML of one notebook."""
    return _render("page.html.j2", page=page, board=board(page.findings).html, script=resource("page.js"))


def render_index(pages: Sequence[Page], sizes: Mapping[str, int]) -> str:
    """Return the HTML of the index; `sizes` gives the bytes of each page by the notebook's name."""
    every = [finding for page in pages for finding in page.findings]
    return _render(
        "index.html.j2",
        pages=pages,
        sizes={name: size_text(size) for name, size in sizes.items()},
        total=size_text(sum(sizes.values())),
        verdict=overall(every, all(page.run.status == "passed" for page in pages)),
        tally=tally(every),
        boards={page.name: board(page.findings, page.file).html for page in pages},
        stopped=[page for page in pages if page.run.status != "passed"],
        labels=list(dict.fromkeys(page.weights for page in pages)),
        made=clock(now()),
        versions=versions(),
        commit=commit(),
        script="",
    )


def _render(template: str, script: str, **values: Any) -> str:
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup

    names = ("frame.html.j2", "page.html.j2", "index.html.j2")
    loader = DictLoader({name: resource(name) for name in names})
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["chip"] = lambda verdict: Markup(chip(verdict))
    environment.globals.update(
        order=ORDER,
        tally_of=tally,
        css=Markup(resource("fragments.css") + resource("page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(sha256(script.encode()).digest()).decode(),
    )
    return environment.get_template(template).render(values)


def clock(iso: str) -> str:
    """Return an ISO 8601 time in UTC as one reads it.

    >>> clock("2026-11-21T09:44:07+00:00")
    '2026-11-21 09:44 UTC'
    """
    return f"{iso[:10]} {iso[11:16]} UTC"


def duration(seconds: float) -> str:
    """Return a wall time as one reads it.

    >>> duration(4.21), duration(192.6)
    ('4.2 s', '3 min 13 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def size_text(count: int) -> str:
    """Return a number of bytes as one reads it.

    >>> size_text(812), size_text(1_540_000)
    ('1 kB', '1.5 MB')
    """
    return f"{max(1, round(count / 1e3))} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"
