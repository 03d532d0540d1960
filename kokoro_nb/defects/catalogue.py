"""The catalogue: every defect of `cases`, what it measures on the installed versions, its script and its report.

A script shows a defect, or a finding, without this package.
"""

import ast
import importlib
import inspect
import pkgutil
import platform
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kokoro_nb.backends.base import quietly
from kokoro_nb.cache_keys import package_versions
from kokoro_nb.defects import cases, defect_case
from kokoro_nb.defects.defect_case import Defect, Figure, compare, judge
from kokoro_nb.defects.runners import RUNNERS
from kokoro_nb.errors import InputError
from kokoro_nb.markup import table
from kokoro_nb.run_apart import run_apart
from kokoro_nb.storage import atomic, require_own

State = Literal["present", "gone", "SKIP"]
MEASURED_ON = {  # the versions of the tools to blame in which every defect was measured to be present
    "torch": "2.13.0",
    "executorch": "1.5.1",
    "apache-tvm": "0.27.0.post1",
    "coremltools": "9.0",
    "onnx": "1.23.2",
    "sherpa-onnx": "2.0.1",
}


@dataclass(frozen=True)
class DefectMeasurement:
    """A defect on the versions that are installed.

    Attributes
    ----------
    broken, mended : Figure or None
        Both forms; None where they cannot run.
    absent : str
        Why not; else empty.
    """

    defect: Defect
    broken: Figure | None = None
    mended: Figure | None = None
    absent: str = ""

    @property
    def state(self) -> State:
        """Return ``present``, ``gone`` where nothing is wrong any more, or ``SKIP`` where it cannot run here."""
        if self.broken is None:
            return "SKIP"
        return "present" if self.broken.wrong else "gone"

    @property
    def expected(self) -> State | None:
        """Return the state that it has to be in here; None where another version or processor may have another."""
        tool = self.defect.packages[0]
        installed = versions((tool,)).get(tool, "").partition("+")[0]
        known = self.broken is not None and installed == MEASURED_ON[tool] and not self.defect.varies
        return "present" if known else None

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        tool = "".join(f"{name} {version}" for name, version in versions(self.defect.packages[:1]).items())
        row: dict[str, Any] = {"name": self.defect.name, "defect": self.defect.title, "tool": self.defect.tool}
        row |= {"version": tool, "today": f"SKIP: {self.absent}" if self.absent else self.state}
        if self.broken is not None and self.mended is not None:
            row |= {"seen": self.broken.seen, "expected": self.broken.expected}
            for control, figure in (("", self.broken), ("control: ", self.mended)):
                row |= {f"{control}wrong (%)": 100 * figure.wrong, f"{control}error (of peak)": figure.error}
        return {**row, "control": self.defect.mended_by}


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the version of each of `packages` (distributions) that is installed."""
    return {name: version for name, version in package_versions(packages).items() if version != "absent"}


def measure(defect: Defect) -> DefectMeasurement:
    """Run both forms of `defect` on what is installed; what the case itself raises there is the reason of a SKIP."""
    found = versions(defect.packages)
    lacking = next((name for name in defect.packages if name not in found), None)
    if lacking:
        return DefectMeasurement(defect, absent=f"{lacking} is not installed; install it with pip install {lacking}.")
    try:
        with quietly():
            broken, mended = (defect_case.measure(defect, RUNNERS.get(defect.runner), form) for form in (False, True))
    except Exception as error:
        return DefectMeasurement(defect, absent=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    return DefectMeasurement(defect, broken, mended)


def defect(name: str) -> Defect:
    """Return the defect of that name.

    Raises
    ------
    InputError
        If there is none.
    """
    for known in DEFECTS:
        if known.name == name:
            return known
    raise InputError(f"There is no defect {name!r}; there are {', '.join(known.name for known in DEFECTS)}.")


def _found() -> Iterator[Defect]:
    """Yield every defect of `cases`: the classes with inputs."""
    for file in pkgutil.iter_modules(cases.__path__):
        module = importlib.import_module(f"{cases.__name__}.{file.name}")
        own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
        yield from (each() for each in own if isinstance(each, type) and hasattr(each, "inputs"))


DEFECTS: tuple[Defect, ...] = tuple(sorted(_found(), key=lambda known: known.name))

WAITED = 300  # seconds, for a script in a process of its own
THERE = "The defect is there."  # as `judge` prints it
_OWN = re.compile(r" \((the patch \w+|models\.[\w.]+)\)")  # a maintainer does not know our names
_END = """\
case, run = {case}, {run}
if __name__ == "__main__":
    sys.exit(judge(case, run))
"""


def write_shown(
    folder: str | Path, script: str, fill: Callable[[Path], object], statuses: Mapping[str, int], right: str
) -> Path:
    """Write a folder whole or not at all, and only if its script, in a process of its own, shows what it should.

    Parameters
    ----------
    folder : path
        One of that name that holds such a script is replaced.
    script : str
        Name of the script.
    fill : callable
        Writes everything into a folder.
    statuses : mapping of str to int
        Option of the script, or an empty text -> what it has to exit with.
    right : str
        The message where it exits with 0 and should not.

    Raises
    ------
    InputError
        If `folder` cannot be written or holds something else, or the script exits with another status.
    """
    require_own(folder, script, "a bundle", "folder")
    with atomic(folder) as draft:
        draft.mkdir()
        fill(draft)
        for option, status in statuses.items():
            done = run_apart(["-I", script, *option.split()], seconds=WAITED, folder=draft)
            if done.status == 0 != status:
                raise InputError(right)
            if done.status != status:
                ended = "does not end" if done.status is None else f"exits with {done.status}, not {status}"
                raise InputError(f"{f'{script} {option}'.strip()} {ended}: {done.last_line[:200]}")
    return Path(folder)


def report_script(defect: Defect) -> str:
    """Return the script of a known defect: see `script`."""
    parts = [kind for kind in type(defect).__mro__[-2::-1] if kind is not Defect]  # from the case that every one is
    return script(defect.title, defect.runner, parts, f"{type(defect).__name__}()")


def script(title: str, runner: str, parts: Sequence[Any], case: str) -> str:
    """Return a script that ends with 1 while a defect is there, with 0 when it is gone, and with 2 if its case breaks.

    It needs NumPy, torch and the packages of the defect; with ``--mended`` it runs the control.

    Parameters
    ----------
    title : str
        What is wrong.
    runner : str
        One of `RUNNERS`, or an empty text.
    parts : sequence of type
        Classes that the case is made of, in the order in which they are to stand.
    case : str
        The expression that makes it.
    """
    run = RUNNERS.get(runner)
    every = (Figure, compare, defect_case.measure, judge, *filter(None, [run]), *parts)
    end = _END.format(case=case, run=run.__name__ if run else None)
    text = "\n\n\n".join([*(_bare(inspect.getsource(part)) for part in every), end])
    used, found = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}, set()
    for module in {part.__module__ for part in every}:
        for statement in ast.parse(inspect.getsource(importlib.import_module(module))).body:
            given = [one for one in getattr(statement, "names", []) if (one.asname or one.name) in used]
            if isinstance(statement, ast.Import):
                found |= {f"import {ast.unparse(one)}" for one in given}
            elif isinstance(statement, ast.ImportFrom) and not str(statement.module).startswith("kokoro_nb"):
                found |= {f"from {statement.module} import {one.name}" for one in given}
    imports = "\n".join(sorted(found))
    return f'"""{title}."""\n\n{imports}\n\n\n{text}'


def _bare(source: str) -> str:
    """Return the source of a class or a function without the docstrings of functions and without our own names."""
    kept = _OWN.sub("", re.sub(r"\bDefect\b", "ReproCase", source)).splitlines()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    texts = [node.body[0] for node in functions if ast.get_docstring(node)]
    for docstring in sorted(texts, key=lambda node: node.lineno, reverse=True):
        del kept[docstring.lineno - 1 : docstring.end_lineno]
    return "\n".join(kept).strip()


def report_text(title: str, lead: str, versions: Mapping[str, str], sections: Mapping[str, Sequence[str]]) -> str:
    """Return a report in Markdown, as a maintainer reads it.

    Parameters
    ----------
    title, lead : str
        What is wrong, and why or where.
    versions : mapping
        Distribution -> version, with which it was measured.
    sections : mapping of str to sequence of str
        Heading -> paragraphs; a heading without any is left out.
    """
    listed = [f"- {name} {version}" for name, version in versions.items()]
    listed.append(f"- Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    parts = [f"# {title}", lead, "## Versions", "\n".join(listed)]
    for heading, paragraphs in sections.items():
        parts += [f"## {heading}", *paragraphs] if paragraphs else []
    return "\n\n".join(parts) + "\n"


def defect_report(defect: Defect, versions: Mapping[str, str], reproduce: Sequence[str], broken: Figure) -> str:
    """Return the report of a known defect.

    Parameters
    ----------
    defect : Defect
    versions : mapping
        Distribution -> version, with which it was measured.
    reproduce : sequence of str
        How to see it, by paragraphs.
    broken : Figure
        What was measured.
    """
    measured = (
        f"{100 * broken.wrong:.4g} % of the elements are wrong; the one that is most off is {broken.seen} where "
        f"{broken.expected} is right. An element is wrong if it is off by more than {defect.limit:g} of the peak of "
        "what is expected, or if only one of the two is NaN or infinite."
    )
    sections = {
        "To reproduce": reproduce,
        "Expected and actual": [measured, *filter(None, [defect.varies])],
        "Lines at fault": [f"{defect.where}."],
        "Workaround": [f"Right by the same measure: {_OWN.sub('', defect.mended_by)}."],
        "Related": ["\n".join(f"- {one}" for one in defect.threads) or "No thread about it is known to us."],
    }
    return report_text(defect.title, defect.cause, versions, sections)


STATE = "STATE.md"
PATIENCE = 600.0  # seconds for one script; the slowest takes 20
MIL = (  # what the reader of a report of the converter has to know
    "Core ML is not needed: the script converts, and has coremltools itself compute each operator of the converted "
    "program."
)


def upstream_report(found: DefectMeasurement) -> tuple[str, str] | None:
    """Return the report of a defect, in Markdown, and the script that is in it.

    None where the defect is not there, or the script, in a process of its own, does not show it.
    """
    if found.broken is None or found.state != "present":
        return None
    defect, script = found.defect, report_script(found.defect)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{defect.name}.py"
        path.write_text(script, encoding="utf-8")
        done = run_apart(["-I", path], seconds=PATIENCE)
    if done.status != 1 or THERE not in done.stdout:
        return None
    reproduce = [
        *([MIL] if defect.runner == "coremltools" else []),
        f"```python\n{script}```",
        "It prints, and ends with 1 while the defect is there and with 0 when it is gone:",
        f"```\n{done.stdout.strip()}\n```",
    ]
    needed = tuple(dict.fromkeys((*defect.packages, "torch", "numpy")))
    return defect_report(defect, versions(needed), reproduce, found.broken), script


def brief(found: DefectMeasurement) -> dict[str, str]:
    """Return the row of a narrow table."""
    row = found.as_dict()
    return {key: row[key] for key in ("name", "version", "today", "control")}


def write_reports(measured: Sequence[DefectMeasurement], folder: str | Path) -> list[str]:
    """Write a report for each defect that is there, whole or not at all, and a page with the state of all.

    ``NAME.md`` is the report, ``NAME.py`` its script, ``STATE.md`` the page.

    Parameters
    ----------
    measured : sequence of DefectMeasurement
    folder : path
        A folder of reports of that name is replaced.

    Returns
    -------
    list of str
        Names of the defects of which one was written. One whose script does not show the defect by itself is not, and
        `STATE.md` says so.

    Raises
    ------
    InputError
        If `folder` cannot be written, or holds something else.
    """
    require_own(folder, STATE, "reports", "folder")
    made, rows = {}, []
    for found in measured:
        name, report = found.defect.name, upstream_report(found)
        if report is not None:
            made[name] = report
        written = f"{name}.md" if name in made else "the script fails" if found.state == "present" else ""
        rows.append({**brief(found), "threads": ", ".join(found.defect.threads), "report": written})
    with atomic(folder) as draft:
        draft.mkdir()
        for name, (text, script) in made.items():
            (draft / f"{name}.md").write_text(text, encoding="utf-8")
            (draft / f"{name}.py").write_text(script, encoding="utf-8")
        page = f"# State of the known defects\n\n```\n{table(rows).text}\n```\n"
        (draft / STATE).write_text(page, encoding="utf-8")
    return list(made)
