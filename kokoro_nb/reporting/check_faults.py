"""Which planted fault turns each check of a notebook red: a check that none does is no check.

A notebook's cells are executed in this process, once as they are. Then, for one fault of `measured_faults` after the
other, until every check has been red, those cells are executed again that a check which is still green depends on. A
cell in which nothing was measured, and that uses nothing that was, is not: its names are still there. For a fault in a
result nothing is measured again: what a study returned in the first run is changed, and what follows from it evaluated.
"""

import ast
import io
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kokoro_nb.errors import ChecksError, InputError
from kokoro_nb.markup import page, table
from kokoro_nb.reporting.fault_table import record_checks
from kokoro_nb.reporting.measured_faults import (
    FAULTS,
    MEASURE_FAULTS,
    changed_result,
    install,
    measured_calls,
    planted,
)
from kokoro_nb.reporting.runs import content_key
from kokoro_nb.reporting.selection import find_notebooks, read_notebook
from kokoro_nb.reporting.small_parameters import given_parameters
from kokoro_nb.reporting.versions import commit, versions
from kokoro_nb.storage import read_json, write_json

SLICED = ("log", "nb", "study", "np", "display")
SHOWN = ("log.show", "log.table", "log.side_by_side", "log.audio", "log.figure")  # nothing is checked by them


@dataclass(frozen=True)
class CheckedBy:
    """One check of a notebook, and what turns it red.

    Attributes
    ----------
    notebook, kind, statement, backend : str
    cell, place : int
        Number of its cell, and which one of its kind it is there.
    verdict : str
        Without a fault.
    killed_by : tuple of str
        Names of the faults that turn it red; the study stops at the first one, or at the first of each kind.
    stopped_by : tuple of str
        Names of the faults with which the notebook stops before it is reached, with an error: nothing passes then.
    """

    notebook: str
    cell: int
    kind: str
    place: int
    statement: str
    backend: str
    verdict: str
    killed_by: tuple[str, ...] = ()
    stopped_by: tuple[str, ...] = ()

    def wants(self, fault: str, kinds: str) -> bool:
        """Return whether a fault is still to be tried on it; `kinds` as for `check_faults`."""
        if self.verdict != "pass":
            return False
        if kinds == "every":
            return True
        same = [one for one in self.killed_by if (one in MEASURE_FAULTS) == (fault in MEASURE_FAULTS)]
        return not (same if kinds == "both" else self.killed_by)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "notebook": self.notebook,
            "cell": self.cell,
            "kind": self.kind,
            "check": self.statement,
            "backend": self.backend,
            "verdict": self.verdict,
            "turned red by": ", ".join(self.killed_by) or "no fault",
            "stops with": ", ".join(self.stopped_by),
        }


Key = tuple[int, str, int]


@dataclass
class _Cell:
    """A code cell, what its clean run left behind, and what it needs and makes."""

    number: int
    source: str
    is_parameters: bool
    names: dict[str, Any] = field(default_factory=dict)  # after the clean run
    measured: bool = field(init=False)  # by the clean run

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.source)
        self.tree.body = [one for one in self.tree.body if not _shows(one)]
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        self.makes = {node.id for node in found if isinstance(node.ctx, ast.Store)}
        self.makes |= {node.name for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)}
        self.uses = {node.id for node in found if isinstance(node.ctx, ast.Load)} - set(SLICED)


def check_faults(
    notebook: str, faults: Sequence[str] = FAULTS, folder: str | Path | None = None, kinds: str = "one"
) -> list[CheckedBy]:
    """Execute a notebook as it is and with `faults`, at the parameters of `given_parameters`.

    Parameters
    ----------
    notebook : str
        Its number or name.
    faults : sequence of str
        Some of `FAULTS`, in the order in which they are tried.
    folder : path, optional
        Where the notebooks are.
    kinds : str
        ``one``: a check that has been red is left alone. ``both``: a fault in a result and one in a measure are looked
        for, which has every notebook executed several times. ``every``: each fault is tried on each check.

    Raises
    ------
    InputError
        If there is no such notebook, or it stops with an error where no fault is planted.
    """
    (path,) = find_notebooks([notebook], folder)
    run = _Run(path)
    found = run.clean()
    for fault in faults:
        wanted = {key for key, each in found.items() if each.wants(fault, kinds)}
        if not wanted:
            continue
        for key, verdict in run.with_fault(fault, wanted).items():
            each = found[key]
            if verdict is None:
                found[key] = replace(each, stopped_by=(*each.stopped_by, fault))
            elif verdict in ("fail", "unknown"):
                found[key] = replace(each, killed_by=(*each.killed_by, fault))
    return list(found.values())


def study_checks(
    notebooks: Sequence[str], folder: Path, kinds: str = "one", *, record: bool = False
) -> list[CheckedBy]:
    """Return the rows of all checks of `notebooks`, from ``<notebook>.json`` in `folder` where they were studied.

    Each notebook's rows are written there as soon as they are known, and all of them as ``index.html``. A notebook is
    studied again once it, the package, ``data/`` or the version of any package is no longer what it was then. With
    `record` they become part of the table that a report shows: see `fault_table`.
    """
    rows = []
    for path in find_notebooks(notebooks):
        saved = folder / f"{path.stem}.json"
        key = content_key(read_notebook(path), {**given_parameters(path), "kinds": kinds})
        known = read_json(saved, "the checks of a notebook") if saved.exists() else {}
        if not isinstance(known, dict) or known.get("key") != key:
            begun = time.process_time()
            found = [asdict(row) for row in check_faults(path.stem, kinds=kinds)]
            about = {"commit": commit(), "versions": versions(), "parameters": given_parameters(path)}
            known = {"key": key, **about, "seconds": round(time.process_time() - begun), "rows": found}
            write_json(saved, known)
        if record:
            about = {name: value for name, value in known.items() if name != "key"}
            record_checks({path.stem: about}, [one.stem for one in find_notebooks()])
        rows += [CheckedBy(**_tuples(each)) for each in known["rows"]]
        shown = table([row.as_dict() for row in rows], "The first fault that turns each check red")
        (folder / "index.html").write_text(page("Check against fault", [shown]), encoding="utf-8")
    return rows


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


class _Run:
    """The cells of one notebook, in this process."""

    def __init__(self, path: Path):
        notebook = read_notebook(path)
        self.name = path.stem
        self.given = given_parameters(path)
        self.cells = [
            _Cell(number, each.source, "parameters" in each.get("metadata", {}).get("tags", ()))
            for number, each in enumerate(notebook.cells)
            if each.cell_type == "code"
        ]
        self.folder = tempfile.TemporaryDirectory()  # results of the clean run may be read again
        self.names: dict[str, Any] = {"__name__": "__main__", "display": lambda *shown: None}

    def clean(self) -> dict[Key, CheckedBy]:
        """Execute every cell; return the checks that passed or failed."""
        found: dict[Key, CheckedBy] = {}
        names, late = self.names, {"log"}  # names that depend on what was measured
        for cell in self.cells:
            install()
            before = measured_calls()
            for key, each in self._findings(cell, names, strict=True).items():
                about = (each.statement, each.backend or "", each.verdict)
                if each.diagnosis is None:  # the card of a sick export is no check
                    found[key] = CheckedBy(self.name, *key, *about)
            cell.measured = measured_calls() > before or bool(cell.uses & late)
            late |= cell.makes if cell.measured else set()
            cell.names = {name: names[name] for name in cell.makes if name in names}
        return {key: each for key, each in found.items() if each.verdict in ("pass", "fail")}

    def with_fault(self, fault: str, wanted: set[Key]) -> dict[Key, str | None]:
        """Return the verdict of each check of `wanted` with a fault, None where it is not reached."""
        names: dict[str, Any] = dict(self.names)
        verdicts: dict[Key, str | None] = dict.fromkeys(wanted)
        needed = self._needed({number for number, _, _ in wanted})
        for cell in self.cells:
            again = cell.number in needed and (fault not in MEASURE_FAULTS or cell.measured)
            if not again or cell.is_parameters:
                names |= cell.names
                continue
            if fault in MEASURE_FAULTS:
                with planted(fault):
                    findings = self._findings(cell, names)
            else:
                findings = self._findings(self._with_results(cell, fault, names), names)
            verdicts |= {key: each.verdict for key, each in findings.items() if key in wanted}
        return verdicts

    def _needed(self, numbers: set[int]) -> set[int]:
        """Return the numbers of the cells that those of `numbers` depend on, by the names that they use."""
        found: set[int] = set()
        uses: set[str] = set()
        for cell in reversed(self.cells):
            if cell.number in numbers or cell.makes & uses:
                found.add(cell.number)
                uses |= cell.uses
        return found

    def _with_results(self, cell: _Cell, fault: str, names: dict[str, Any]) -> _Cell:
        """Return the cell with the results of its clean run, changed, in place of the calls that made them."""
        body: list[ast.stmt] = []
        for statement in cell.tree.body:
            made = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id in cell.names}
            if isinstance(statement, ast.Assign) and self._measures(statement.value):
                stored = {name for target in statement.targets for name in _stored(target)}
                names |= _changed_together({name: cell.names[name] for name in stored if name in made}, fault)
            else:
                body.append(statement)
        changed = replace(cell)
        changed.tree = ast.Module(body, [])
        return changed

    def _measures(self, value: ast.expr) -> bool:
        """Return whether an expression is, or is made of, what a study or a method of its results returns."""
        calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
        roots = {node.id for call in calls for node in ast.walk(call) if isinstance(node, ast.Name)}
        return bool(roots & {"study", "nb"}) or any(
            isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) and call.value.id in self._results
            for call in calls
        )

    @property
    def _results(self) -> set[str]:
        return {name for cell in self.cells for name in cell.makes} - set(SLICED)

    def _findings(self, cell: _Cell, names: dict[str, Any], *, strict: bool = False) -> dict[Key, Any]:
        """Execute a cell; return its checks. An error ends the cell, and no other one; with `strict` it is raised."""
        before = len(names["log"].findings) if "log" in names else 0
        try:
            with redirect_stdout(io.StringIO()):
                exec(compile(cell.tree, f"{self.name}, cell {cell.number}", "exec"), names)
        except Exception as error:
            if strict and not isinstance(error, ChecksError):
                raise InputError(f"cell {cell.number} of {self.name} stops without a fault: {error!r}") from error
            for name in cell.names:  # what it would have made is not there: the clean run's would pass
                if names.get(name) is cell.names[name]:
                    names.pop(name, None)
        if cell.is_parameters:
            names |= self.given | {"out_dir": self.folder.name}
        found: dict[Key, Any] = {}
        counts: dict[str, int] = {}
        for finding in names["log"].findings[before:] if "log" in names else ():
            place = counts[finding.kind] = counts.get(finding.kind, 0) + 1
            found[cell.number, finding.kind, place] = finding
        return found


def _shows(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and ast.unparse(value.func) in SHOWN


def _changed_together(made: dict[str, Any], fault: str) -> dict[str, Any]:
    """Return what one statement made with a fault: several figures as rows of a table, so that one may change alone."""
    if len(made) > 1 and all(isinstance(value, float) for value in made.values()):
        changed = changed_result(made, fault)
        if isinstance(changed, dict) and changed.keys() == made.keys():
            return changed
    return {name: changed_result(value, fault) for name, value in made.items()}


def _stored(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
