"""A folder with a script that shows an error without this package; a known defect as one, for a bug report."""

import ast
import inspect
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from kokoro_nb.defects import repro
from kokoro_nb.defects.catalogue import DefectMeasurement, measure, versions
from kokoro_nb.defects.defect_case import Defect
from kokoro_nb.defects.runners import RUNNERS
from kokoro_nb.errors import InputError
from kokoro_nb.run_apart import run_apart
from kokoro_nb.storage import atomic, require_own

SCRIPT, REPORT = "repro.py", "REPORT.md"
WAITED = 300  # seconds, for a script in a process of its own
RUN = "    python repro.py\n    python repro.py --mended"
_OURS = {"tool", "backends", "operators", "mechanism", "concerns", "whole"}  # of a case, for `catalogue` and `locate`
_OWN = re.compile(r" \((the patch \w+|models\.[\w.]+)\)")  # a maintainer does not know our names


def write_shown(
    folder: str | Path,
    script: str,
    fill: Callable[[Path], object],
    statuses: Mapping[str, int] | None = None,
    right: str = "",
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
    statuses : mapping of str to int, optional
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
        for option, status in (statuses or {}).items():
            done = run_apart(["-I", script, *option.split()], seconds=WAITED, folder=draft)
            if done.status == 0 != status:
                raise InputError(right)
            if done.status != status:
                ended = "does not end" if done.status is None else f"exits with {done.status}, not {status}"
                raise InputError(f"{f'{script} {option}'.strip()} {ended}: {done.last_line[:200]}")
    return Path(folder)


def fill_case(draft: Path, code: Mapping[str, str], inputs: Mapping[str, torch.Tensor], report: str) -> None:
    """Write `repro` with the case that it runs, the case's inputs and a report into a folder.

    Parameters
    ----------
    draft : Path
        The folder.
    code : mapping of str to str
        Name of a file -> what is in it: ``case.py`` and, if the case has one, ``runner.py``.
    inputs : mapping of str to Tensor
        In the order in which the case takes them.
    report : str
        In Markdown.
    """
    for name, text in {SCRIPT: inspect.getsource(repro), REPORT: report, **code}.items():
        (draft / name).write_text(text, encoding="utf-8")
    (draft / repro.INPUTS).write_bytes(save(dict(inputs), {repro.ORDER: ",".join(inputs)}))


def write_bundle(defect: Defect, folder: str | Path, measured: DefectMeasurement | None = None) -> Path:
    """Write what reproduces `defect` to `folder`, whole or not at all, and return its path.

    The folder holds ``repro.py``, which exits with 1 while the defect is there, 0 when it is gone and 3 where it cannot
    run; ``case.py`` and ``runner.py``, the code that was measured here; ``inputs.safetensors``, with the weights; and
    ``REPORT.md``.

    Parameters
    ----------
    defect : Defect
        One of `DEFECTS`.
    folder : path
        A folder of that name is replaced.
    measured : DefectMeasurement, optional
        What `measure` returned; it is measured now if it is not given.

    Raises
    ------
    InputError
        If `folder` cannot be written.
    """
    found = measured or measure(defect)
    reproduce = [
        RUN,
        "The first exits with 1 while the defect is there and with 0 when it is gone, the second with 0. Both need "
        f"torch, numpy and safetensors, and exit with 3 where {' or '.join(defect.packages)} is not installed.",
        *([f"Not measured where this was written: {found.absent}"] if found.absent else []),
    ]
    used = versions(tuple(dict.fromkeys((*defect.packages, "torch", "numpy"))))
    text = defect_report(defect, used, reproduce, found.broken, found.mended)
    code = {repro.CASE: bare_source(*case_parts(defect), end=f"case = {type(defect).__name__}()\n")}
    if defect.runner:
        code[repro.RUNNER] = runner_source(defect.runner)
    return write_shown(folder, SCRIPT, lambda draft: fill_case(draft, code, defect.inputs, text))


def bare_source(*parts: Any, end: str) -> str:
    """Return the source of classes and functions with the imports that it needs, without what only this package reads.

    Parameters
    ----------
    *parts : type or callable
        In the order in which they are to stand.
    end : str
        What stands below them.
    """
    text = "\n\n\n".join([*(_bare(inspect.getsource(part)) for part in parts), end])
    used, found = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}, set()
    for module in {part.__module__ for part in parts}:
        for statement in ast.parse(inspect.getsource(import_module(module))).body:
            given = [one for one in getattr(statement, "names", []) if (one.asname or one.name) in used]
            if isinstance(statement, ast.Import):
                found |= {f"import {ast.unparse(one)}" for one in given}
            elif isinstance(statement, ast.ImportFrom) and not str(statement.module).startswith("kokoro_nb"):
                found |= {f"from {statement.module} import {one.name}" for one in given}
    return "\n".join(sorted(found)) + f"\n\n\n{text}"


def runner_source(name: str) -> str:
    """Return the source of one of `RUNNERS` by itself, as `repro` reads it."""
    return bare_source(*RUNNERS[name], end=f"run = {RUNNERS[name][-1].__name__}\n")


def _bare(source: str) -> str:
    """Return the source of a class or a function without docstrings and fields of the catalogue."""
    kept: dict[int, str | None] = dict(enumerate(re.sub(r"\bDefect\b", "ReproCase", source).splitlines(), 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            gone = [
                one for one in node.body if _name(one) in _OURS or (one is node.body[0] and ast.get_docstring(node))
            ]
            for one in gone:
                first = [*getattr(one, "decorator_list", []), one][0].lineno
                kept |= dict.fromkeys(range(first, (one.end_lineno or first) + 1))
            if len(gone) == len(node.body):
                kept[gone[0].lineno] = " " * gone[0].col_offset + "pass"
    text = "\n".join(line for line in kept.values() if line is not None)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r":\n\n+", ":\n", text)).strip()


def _name(statement: ast.stmt) -> str:
    """Return the name that a statement of a class gives."""
    target = getattr(statement, "targets", [getattr(statement, "target", None)])[0]
    return getattr(statement, "name", getattr(target, "id", ""))


def case_parts(defect: Defect) -> list[type]:
    """Return the classes that a defect is made of, from the case that every one is."""
    return [kind for kind in type(defect).__mro__[-2::-1] if kind is not Defect]


def report_text(
    title: str, lead: str, versions: Mapping[str, str], sections: Mapping[str, Sequence[str]], system: str = ""
) -> str:
    """Return a report in Markdown, as a maintainer reads it.

    Parameters
    ----------
    title, lead : str
        What is wrong, and why or where.
    versions : mapping
        Distribution -> version, with which it was measured.
    sections : mapping of str to sequence of str
        Heading -> paragraphs; a heading without any is left out.
    system : str
        Version of Python, and the machine; by default those here.
    """
    here = system or f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    listed = [f"- {name} {version}" for name, version in versions.items()]
    parts = [f"# {title}", lead, "## Versions", "\n".join([*listed, f"- Python {here}"])]
    for heading, paragraphs in sections.items():
        parts += [f"## {heading}", *paragraphs] if paragraphs else []
    return "\n\n".join(parts) + "\n"


def defect_report(
    defect: Defect,
    versions: Mapping[str, str],
    reproduce: Sequence[str],
    broken: repro.Figure | None,
    mended: repro.Figure | None = None,
    system: str = "",
) -> str:
    """Return the report of a known defect.

    Parameters
    ----------
    defect : Defect
    versions : mapping
        Distribution -> version, with which it was measured.
    reproduce : sequence of str
        How to see it, by paragraphs.
    broken, mended : Figure or None
        What was measured of both forms.
    system : str
        As for `report_text`.
    """
    forms = [(form, one) for form, one in (("As it is", broken), ("Mended", mended)) if one is not None]
    measured = [
        f"{form}, {100 * one.wrong:.4g} % of the elements are wrong; the one that is most off is {one.seen} where "
        f"{one.expected} is right."
        for form, one in forms
    ]
    share = f"more than {defect.limit:g} of the peak of what is expected"
    measured.append(f"An element is wrong if it is off by {share}, or if only one of the two is NaN or infinite.")
    sections = {
        "To reproduce": reproduce,
        "Expected and actual": [*measured, *filter(None, [defect.varies])],
        "Lines at fault": [f"{defect.where}."],
        "Workaround": [f"Right by the same measure: {_OWN.sub('', defect.mended_by)}."],
        "Related": ["\n".join(f"- {one}" for one in defect.threads) or "No thread about it is known to us."],
    }
    return report_text(defect.title, defect.cause, versions, sections, system)
