"""Defects that are there in the installed versions, as reports that can be filed as they are."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from kokoro_nb.defects.catalogue import DefectMeasurement, versions
from kokoro_nb.defects.defect_script import THERE, defect_report, report_script
from kokoro_nb.markup import table
from kokoro_nb.run_apart import run_apart
from kokoro_nb.storage import atomic, require_own

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
