"""The report: a page for each notebook that needs nothing else and loads nothing, and an index of all verdicts."""

import base64
import io
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.markup import ORDER, resource, table
from kokoro_nb.reporting.cells import Body, render_cells
from kokoro_nb.reporting.fragments import WORDS, board, checks, overall, rendered, tally
from kokoro_nb.reporting.runs import AGAIN, Pending, RunRecord, changed_files, now, read_runs
from kokoro_nb.reporting.selection import read_notebook
from kokoro_nb.reporting.side_by_side import MARK, player_script
from kokoro_nb.reporting.versions import commit, versions
from kokoro_nb.reporting.wrong_export import card, symptom
from kokoro_nb.storage import write_text

# of what ended otherwise the status is the word itself
STATES = {"passed": "completed", "checks failed": "completed", "failed": "stopped"}
NO_END = (*get_args(Pending), "damaged", "removed", "skipped")  # how the execution itself ended is another matter
THUMBNAIL = (320, 200)  # pixels
GROUPS = {
    "Start here": "00",
    "The decoder that was all NaN": "01 02 03 04 05 12 15 22",
    "Static shapes and NPUs": "06 09 11",
    "Core ML": "07",
    "PocketTTS": "08",
    "Tools": "10 14 17 21",
    "In use": "13 19 20",
}
"""The notebooks of this package, by the first two letters of their names, as a path through them."""
OTHERS = "Other notebooks"
GENERATOR = '<meta name="generator" content="kokoro_nb">'  # by which a page of an earlier report is known


@dataclass(frozen=True)
class WrongExport:
    """A wrong export: its card on the page of its notebook, the one on the first page, how bad it is, and its cause.

    Exports of one notebook that fail with one error on one backend have one cause, and one card on the first page.
    """

    here: str
    first_page: str
    severity: tuple[float, float]
    cause: str


@dataclass(frozen=True)
class Page:
    """One notebook as it is reported.

    Attributes
    ----------
    run : RunRecord
        How it was executed.
    folder : Path
        What that left.
    findings : tuple of Finding
        Its findings.
    about : mapping
        Facts that were recorded with them.
    body : Body
        Its cells.
    wrong : tuple of WrongExport
        Its cards.
    """

    run: RunRecord
    folder: Path
    findings: tuple[Finding, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    body: Body = field(default_factory=Body)
    wrong: tuple[WrongExport, ...] = ()

    @cached_property
    def picture(self) -> str:
        """The picture of the answer, else the first figure, as PNG in base64; empty where the run did not write it."""
        figures = self.about.get("figures")
        first = figures[0].get("path") if isinstance(figures, list) and figures and isinstance(figures[0], dict) else ""
        name = self.answer["picture"] or str(first or "")
        if name not in self.run.files or changed_files(self.folder, self.run, (name,)):
            return ""
        found = (self.folder / name).read_bytes()
        return _encoded(found) if found.startswith(b"\x89PNG") else ""

    @property
    def name(self) -> str:
        """Name of the notebook."""
        return self.run.notebook

    @property
    def state(self) -> str:
        """How the execution ended, in a word."""
        return STATES.get(self.run.status, self.run.status)

    @property
    def completed(self) -> bool:
        """Whether every cell ran."""
        return self.run.status in ("passed", "checks failed")

    @property
    def pending(self) -> bool:
        """Whether its run has not ended."""
        return self.run.status in get_args(Pending)

    @property
    def ended(self) -> str:
        """How the execution ended, where it did not come to its end."""
        return self.state if self.run.status in NO_END else f"{self.state} before its end"

    @property
    def verdict(self) -> str:
        """One verdict for the whole notebook; of one that has not ended that it is waiting or running."""
        if self.run.status == "skipped":
            return "skip"
        return self.run.status if self.pending else overall(self.findings, completed=self.run.status == "passed")

    @property
    def answer(self) -> dict[str, str]:
        """The answer to its question, ``text``, its ``picture``, and what that shows (``alt``); "" of what it lacks."""
        found = self.about.get("answer")
        return {key: str((isinstance(found, Mapping) and found.get(key)) or "") for key in ("text", "picture", "alt")}

    @cached_property
    def thumbnail(self) -> str:
        """The picture, small, as JPEG in base64; empty without one that can be read."""
        from PIL import Image

        try:
            image = Image.open(io.BytesIO(base64.b64decode(self.picture))).convert("RGB")
        except (OSError, Image.DecompressionBombError):
            return ""
        image.thumbnail(THUMBNAIL)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=80)
        return _encoded(buffer.getvalue())

    @property
    def unsettled(self) -> list[Finding]:
        """The checks that failed or are unknown, and those that were skipped where nothing passed."""
        found = checks(self.findings)
        passed = any(one.verdict == "pass" for one in found)
        return [one for one in found if one.verdict in ("fail", "unknown") or not passed]

    @property
    def weights(self) -> str:
        """Label of the weights that it was measured on."""
        return str(self.about.get("weights", "not recorded"))


def read_page(run: RunRecord, folder: Path, out_dir: Path) -> Page:
    """Read what `run` left in `folder`; what is no longer as it left it, or may be half-written, is not opened.

    Pages in `out_dir` link to what reproduces a fault.
    """
    spoilt = changed_files(folder, run, ("findings.json", f"{run.notebook}.ipynb"))
    page = Page(run, folder)
    try:
        if (folder / "findings.json").is_file() and "findings.json" not in spoilt:
            findings, about = read_findings(folder / "findings.json")
            page = replace(page, findings=findings, about=about)
            page = replace(page, wrong=wrong_exports(findings, run.notebook, folder, out_dir))
        if run.executed and run.executed not in spoilt:
            page = replace(page, body=read_body(folder / run.executed, run.error))
    except InputError as error:
        spoilt.append(str(error).removesuffix("."))
    if spoilt and run.status in ("passed", "checks failed"):
        reason = f"Its results were changed or damaged since; {AGAIN}."
        page = replace(page, run=replace(run, status="damaged", reason=reason, error="; ".join(spoilt)))
    return page


def wrong_exports(findings: Sequence[Finding], notebook: str, folder: Path, out_dir: Path) -> tuple[WrongExport, ...]:
    """Return the cards of the wrong exports among `findings`.

    Raises
    ------
    InputError
        If one of them is none that this package has written.
    """
    found: list[WrongExport] = []
    for row in (one.diagnosis for one in findings if one.diagnosis is not None):
        try:
            place = (folder / str(row["bundle"])).resolve() if row["bundle"] else folder
            written = place.is_dir() and folder.resolve() in place.parents
            bundle = quote(Path(os.path.relpath(place, out_dir)).as_posix()) if written else ""
            here, there = card(row, bundle=bundle), card(row, f"{quote(notebook)}.html", notebook, bundle)
            error = row["failure"]["error"] if row["failure"] else f"{len(found)}"
            cause = f"{notebook} {row['backend']} {error}"
            found.append(WrongExport(here.html, there.html, symptom(row)[2], cause))
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise InputError(f"A diagnosis of {notebook} cannot be shown ({error!r}); run it again.") from error
    return tuple(found)


def read_body(path: Path, error: str = "") -> Body:
    """Render the cells of the executed notebook at `path`: see `cells.render_cells`.

    Raises
    ------
    InputError
        If it cannot be read, or holds what no cell of a notebook yields.
    """
    notebook = read_notebook(path)
    try:
        return render_cells(notebook, error)
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        message = str(fault).encode("unicode_escape").decode()
        raise InputError(f"{path} holds outputs that cannot be shown ({message}); run the notebook again.") from fault


def render_page(page: Page) -> str:
    """Return the HTML of one notebook; what a figure of versions needs is in the page where there is one."""
    more = MARK in page.body.html
    script = resource("reporting/page.js") + (player_script() if more else "")
    style = resource("reporting/side_by_side/side_by_side.css") if more else ""
    style += resource("reporting/explorer/explorer.css") if "knb-explorer" in page.body.html else ""
    return _render("page.html.j2", page=page, board=board(page.findings).html, script=script, style=style)


def render_index(pages: Sequence[Page], sizes: Mapping[str, int]) -> str:
    """Return the HTML of the index; `sizes` gives the bytes of each page by the notebook's name."""
    counted = [page for page in pages if page.run.status != "removed"]
    every = [finding for page in counted for finding in page.findings]
    pending = [page.name for page in pages if page.pending]
    verdict = overall(every, all(page.run.status in ("passed", "skipped") for page in counted if not page.pending))
    verdict = "running" if pending and verdict != "fail" else verdict
    given: dict[str, Any] = {"pages": pages, "groups": _groups(pages), "sizes": sizes, "total": sum(sizes.values())}
    given |= {"verdict": verdict, "tally": tally(every), "backends": table([*_by_backend(counted)]).html}
    given["wrong"] = _first_cards([one for page in counted for one in page.wrong])
    given["stopped"] = [one for one in pages if not (one.completed or one.pending or one.run.status == "skipped")]
    given["labels"] = list(dict.fromkeys(page.weights for page in pages if not page.pending))
    given |= {"pending": pending, "made": now(), "versions": versions(), "commit": commit()}
    return _render("index.html.j2", script="", **given)


def _by_backend(pages: Sequence[Page]) -> Iterator[dict[str, Any]]:
    """Yield a row for each backend: how many checks on it have each verdict, and in which notebooks."""
    for name in sorted({one.backend for page in pages for one in checks(page.findings) if one.backend}):
        own = [(page, one.verdict) for page in pages for one in checks(page.findings) if one.backend == name]
        counts = Counter[str](verdict for _, verdict in own)
        row = {"backend": name} | {WORDS[verdict]: counts[verdict] for verdict in ORDER}
        yield row | {"notebooks": ", ".join(dict.fromkeys(page.name.partition("_")[0] for page, _ in own))}


def _groups(pages: Sequence[Page]) -> Mapping[str, list[Page]]:
    """Return the pages by the group that they belong to, each group in its own order."""
    known = {start: group for group, starts in GROUPS.items() for start in starts.split()}
    found: dict[str, list[Page]] = {group: [] for group in (*GROUPS, OTHERS)}
    for page in pages:
        found[known.get(page.name[:2], OTHERS)].append(page)
    return {group: each for group, each in found.items() if each}


def _first_cards(wrong: Sequence[WrongExport]) -> list[str]:
    """Return the cards of the first page, the worst first: one for each cause, with the number of the others."""
    counts, first = Counter(one.cause for one in wrong), dict[str, str]()
    for one in sorted(wrong, key=lambda one: one.severity, reverse=True):
        others = counts[one.cause] - 1
        more = f'<p class="tally">The same error in {others} more.</p>' if others else ""
        first.setdefault(one.cause, one.first_page + more)
    return [*first.values()]


def _render(template: str, script: str, style: str = "", **values: Any) -> str:
    css = resource("markup.css") + style + resource("reporting/page.css")
    about = {"generator": GENERATOR, "css": css, "script": script}
    return rendered(template, **about, script_hash=_encoded(sha256(script.encode()).digest()), **values)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


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
        written = {index.name, *(f"{name}.html" for name, (_, _, size) in self._written.items() if size)}
        for path in self._out_dir.glob("*.html"):
            if path.name not in written and GENERATOR.encode() in path.read_bytes()[:1000]:
                path.unlink()
        return index

    def _page(self, run: RunRecord) -> tuple[RunRecord, Page, int]:
        if (known := self._written.get(run.notebook)) is not None and known[0] == run:
            return known
        page = read_page(run, self._run_dir / run.notebook, self._out_dir)
        page.body.title = self._titles.get(run.notebook, page.body.title) or page.name
        if run.status == "waiting":  # there is no page before its run has begun
            return run, page, 0
        return run, page, write_text(self._out_dir / f"{page.name}.html", render_page(page)).stat().st_size


def _current(run: RunRecord, notebooks: Collection[str] | None) -> RunRecord:
    if notebooks is None or run.notebook in notebooks or (run.source and Path(run.source).is_file()):
        return run
    reason = (
        f"There is no notebook {run.notebook} any more, it was renamed or removed after this run; delete its folder if "
        "its results are no longer wanted."
    )
    return replace(run, status="removed", reason=reason)
