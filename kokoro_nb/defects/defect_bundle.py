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
from kokoro_nb.defects.defect_report import report
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
    defect = measured.defect
    used = versions(tuple(dict.fromkeys((*defect.packages, "torch", "numpy"))))
    reproduce = [
        "    python repro.py\n    python repro.py --mended",
        "The first exits with 1 while the defect is there and with 0 when it is gone, the second with 0. Both need "
        f"torch, numpy and safetensors, and exit with 3 where {' or '.join(defect.packages)} is not installed.",
        *([f"Not measured where this was written: {measured.absent}"] if measured.absent else []),
    ]
    system = f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    return report(defect, used, system, reproduce, measured.broken, measured.mended)
