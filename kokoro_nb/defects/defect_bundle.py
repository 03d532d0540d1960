"""A defect as a folder that reproduces it without this package: for a bug report, or to try a new version."""

import inspect
import platform
import re
import shutil
from pathlib import Path

from safetensors.torch import save

from kokoro_nb.defects import repro
from kokoro_nb.defects.catalogue import DefectMeasurement, measure, runner, versions
from kokoro_nb.defects.defect_case import Defect
from kokoro_nb.storage import atomic, require_own

SCRIPT, REPORT = "repro.py", "REPORT.md"


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
    measured = measured or measure(defect)
    require_own(folder, SCRIPT, "a bundle", "folder")
    with atomic(folder) as draft:
        draft.mkdir()
        for name, module in {SCRIPT: repro, repro.RUNNER: runner(defect)}.items():
            if module is not None:
                shutil.copyfile(inspect.getfile(module), draft / name)
        (draft / repro.CASE).write_text(_code(defect), encoding="utf-8")
        (draft / repro.INPUTS).write_bytes(save(dict(defect.inputs), {repro.ORDER: ",".join(defect.inputs)}))
        (draft / REPORT).write_text(_report(measured), encoding="utf-8")
    return Path(folder)


def _code(defect: Defect) -> str:
    """Return the source of the defect, with the classes that it is made of and what their modules import."""
    classes = type(defect).__mro__[-2::-1]
    lines = [line for each in classes for line in inspect.getsource(inspect.getmodule(each) or each).splitlines()]
    imports = dict.fromkeys(line for line in lines if re.match(r"(import|from) (?!kokoro_nb)", line))
    parts = ["\n".join(imports), *map(inspect.getsource, classes), f"case = {type(defect).__name__}()\n"]
    return "\n\n".join(parts)


def _report(measured: DefectMeasurement) -> str:
    """Return the bug report, in Markdown."""
    defect = measured.defect
    used = versions(tuple(dict.fromkeys((*defect.packages, "torch", "numpy"))))
    lines = [
        f"# {defect.title}",
        defect.cause,
        f"Where: {defect.where}.",
        "## Versions",
        "\n".join(f"- {name} {version}" for name, version in used.items()),
        f"- Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        "## What is expected and what is seen",
        *_figures(measured),
        *([defect.varies] if defect.varies else []),
        "## How to run it",
        "    python repro.py\n    python repro.py --mended",
        "The first exits with 1 while the defect is there and with 0 when it is gone, the second with 0. Both need "
        f"torch, numpy and safetensors, and exit with 3 where {' or '.join(defect.packages)} is not installed.",
    ]
    return "\n\n".join(lines).replace("\n\n- Python", "\n- Python") + "\n"


def _figures(measured: DefectMeasurement) -> list[str]:
    if measured.broken is None or measured.mended is None:
        return [f"Not measured where this was written: {measured.absent}"]
    limit = f"{measured.defect.limit:g} of the peak of what is expected"
    return [
        f"The defect was {measured.state} when this was written. An element is wrong if it is off by more than {limit},"
        " or if only one of the two is NaN or infinite.",
        "\n".join(
            [
                "| form | wrong (%) | error (of peak) | seen | expected |",
                "|---|---|---|---|---|",
                *(
                    f"| {form} | {100 * figure.wrong:.4g} | {figure.error:.3g} | {figure.seen} | {figure.expected} |"
                    for form, figure in (("as it is", measured.broken), ("mended", measured.mended))
                ),
            ]
        ),
        f"Mended means: {measured.defect.mended_by}.",
    ]
