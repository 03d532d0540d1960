"""A folder with a script that shows an error without this package; a known defect as one, for a bug report."""

import inspect
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save

from kokoro_nb.defects import repro
from kokoro_nb.defects.catalogue import DefectMeasurement, measure, runner, versions
from kokoro_nb.defects.defect_case import Defect
from kokoro_nb.errors import InputError
from kokoro_nb.run_apart import run_apart
from kokoro_nb.storage import atomic, require_own

SCRIPT, REPORT = "repro.py", "REPORT.md"
WAITED = 300  # seconds, for a script in a process of its own
RUN = "    python repro.py\n    python repro.py --mended"
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
    found, module = measured or measure(defect), runner(defect)
    reproduce = [
        RUN,
        "The first exits with 1 while the defect is there and with 0 when it is gone, the second with 0. Both need "
        f"torch, numpy and safetensors, and exit with 3 where {' or '.join(defect.packages)} is not installed.",
        *([f"Not measured where this was written: {found.absent}"] if found.absent else []),
    ]
    used = versions(tuple(dict.fromkeys((*defect.packages, "torch", "numpy"))))
    text = defect_report(defect, used, reproduce, found.broken, found.mended)
    code = {repro.CASE: _code(defect), **({} if module is None else {repro.RUNNER: inspect.getsource(module)})}
    return write_shown(folder, SCRIPT, lambda draft: fill_case(draft, code, defect.inputs, text))


def _code(defect: Defect) -> str:
    """Return the source of the defect, with the classes that it is made of and what their modules import."""
    classes = type(defect).__mro__[-2::-1]
    lines = [line for each in classes for line in inspect.getsource(inspect.getmodule(each) or each).splitlines()]
    imports = dict.fromkeys(line for line in lines if re.match(r"(import|from) (?!kokoro_nb)", line))
    parts = ["\n".join(imports), *map(inspect.getsource, classes), f"case = {type(defect).__name__}()\n"]
    return "\n\n".join(parts)


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
