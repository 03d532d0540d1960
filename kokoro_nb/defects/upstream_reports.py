"""Defects that stand in the newest release that was tried, as reports that can be filed as they are."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kokoro_nb.defects.defect_script import THERE, defect_report, report_script
from kokoro_nb.defects.environments import NEEDED, PATIENCE, ComparedDefect
from kokoro_nb.run_apart import run_apart
from kokoro_nb.storage import atomic, require_own

STATE = "STATE.md"
MIL = (  # what the reader of a report of the converter has to know
    "Core ML is not needed: the script converts, and computes with NumPy what each operator of the converted program "
    "means by the documentation of MIL."
)
COLUMNS = (("reproduced",), ("fixed",), ("not applicable", "could not run"))


@dataclass(frozen=True)
class UpstreamReport:
    """The report of one defect.

    Attributes
    ----------
    name : str
        Of the defect.
    text, script : str
        The report in Markdown, and the script that is in it.
    shown : bool
        Whether the script showed the defect in a process of its own.
    """

    name: str
    text: str
    script: str
    shown: bool


def upstream_report(compared: ComparedDefect) -> UpstreamReport | None:
    """Return the report of a defect; None where it does not stand in the newest versions in which it was judged.

    The script is run in the environment with these versions.
    """
    place = compared.newest("reproduced")
    if place is None or compared.advice.startswith("upgrade"):
        return None
    defect, where = compared.defect, compared.environments[place]
    script = report_script(defect)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{defect.name}.py"
        path.write_text(script, encoding="utf-8")
        done = run_apart(["-I", path], where.python, PATIENCE)
    reproduce = [
        *([MIL] if defect.runner == "coremltools" else []),
        f"```python\n{script}```",
        "It prints, and ends with 1 while the defect is there and with 0 when it is gone:",
        f"```\n{(done.stdout or done.stderr[-2000:]).strip()}\n```",
    ]
    versions = where.versions(tuple(dict.fromkeys((*defect.packages, *NEEDED))))
    system = f"{where.version}, {where.system}"
    text = defect_report(defect, versions, reproduce, compared.outcomes[place].broken, system)
    return UpstreamReport(defect.name, text, script, done.status == 1 and THERE in done.stdout)


def write_reports(compared: Sequence[ComparedDefect], folder: str | Path) -> list[UpstreamReport]:
    """Write a report for each defect that stands, whole or not at all, and a page with the state of all.

    ``NAME.md`` is the report, ``NAME.py`` its script, ``STATE.md`` the page.

    Parameters
    ----------
    compared : sequence of ComparedDefect
        See `compare_environments`.
    folder : path
        A folder of reports of that name is replaced.

    Returns
    -------
    list of UpstreamReport
        Those that were written. One whose script does not show the defect by itself is not, and `STATE.md` says so.

    Raises
    ------
    InputError
        If `folder` cannot be written, or holds something else.
    """
    require_own(folder, STATE, "reports", "folder")
    made = {each.defect.name: upstream_report(each) for each in compared}
    with atomic(folder) as draft:
        draft.mkdir()
        shown = [report for report in made.values() if report is not None and report.shown]
        for report in shown:
            (draft / f"{report.name}.md").write_text(report.text, encoding="utf-8")
            (draft / f"{report.name}.py").write_text(report.script, encoding="utf-8")
        (draft / STATE).write_text(_state(compared, made), encoding="utf-8")
    return shown


def _state(compared: Sequence[ComparedDefect], made: dict[str, UpstreamReport | None]) -> str:
    heads = ("defect", "reproduced in", "fixed in", "not judged in", "workaround", "threads", "report")
    rows = [heads, ("---",) * len(heads)]
    for each in compared:
        why = [f" ({one.reason})" if one.reason else "" for one in each.outcomes]
        found = [(one.outcome, *said) for one, *said in zip(each.outcomes, each.labels(), why, strict=True)]
        by = ["; ".join("".join(said) for outcome, *said in found if outcome in kinds) for kinds in COLUMNS]
        written = made[each.defect.name]
        link = "" if written is None else f"[{written.name}.md]({written.name}.md)" if written.shown else "script fails"
        rows.append((each.defect.title, *by, each.defect.mended_by, ", ".join(each.defect.threads), link))
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return f"# State of the known defects\n\n{table}\n"
