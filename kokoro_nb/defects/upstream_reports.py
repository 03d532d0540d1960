"""Defects that stand in the newest release that was tried, as reports that can be filed as they are."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kokoro_nb.defects.catalogue import runner
from kokoro_nb.defects.environments import NEEDED, ComparedDefect, Environment
from kokoro_nb.defects.report_script import THERE, report_script
from kokoro_nb.storage import atomic, require_own

STATE = "STATE.md"
_PATIENCE = 600  # seconds
_OWN = re.compile(r" \((the patch \w+|models\.[\w.]+)\)")  # a maintainer does not know our names


@dataclass(frozen=True)
class UpstreamReport:
    """The report of one defect.

    Attributes
    ----------
    name : str
        Of the defect.
    text, script : str
        The report in Markdown, and the script that is in it.
    output : str
        What the script printed in a process of its own.
    shown : bool
        Whether it showed the defect there.
    """

    name: str
    text: str
    script: str
    output: str
    shown: bool


def upstream_report(compared: ComparedDefect) -> UpstreamReport | None:
    """Return the report of a defect; None where it does not stand in the newest versions in which it was judged.

    The script is run in the environment with these versions.
    """
    place, fixed = compared.newest("reproduced"), compared.newest("fixed")
    if place is None or (fixed is not None and compared.advice.startswith("upgrade")):
        return None
    defect, where = compared.defect, compared.environments[place]
    script = report_script(defect)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{defect.name}.py"
        path.write_text(script, encoding="utf-8")
        output, status = _printed(where, path)
    figure = compared.outcomes[place].broken
    assert figure is not None
    versions = where.versions(tuple(dict.fromkeys((*defect.packages, *NEEDED[:2]))))
    how = getattr(runner(defect), "HOW", "")
    judged = "Every difference counts."
    if defect.limit:
        judged = (
            f"An element is wrong if it is off by more than {defect.limit:g} of the peak of what is expected, or if "
            "only one of the two is NaN or infinite."
        )
    parts = [
        f"# {defect.title}",
        defect.cause,
        "## Versions",
        "\n".join(
            [
                *(f"- {name} {version}" for name, version in versions.items()),
                f"- Python {where.version}, {where.system}",
            ]
        ),
        "## To reproduce",
        *([how] if how else []),
        f"```python\n{script}```",
        "It prints, and ends with 1 while the defect is there and with 0 when it is gone:",
        f"```\n{output.strip()}\n```",
        "## Expected",
        f"{figure.expected} at the element that is most off. {judged}",
        "## Actual",
        f"{figure.seen} there; {100 * figure.wrong:.4g} % of the elements are wrong.",
        *([defect.varies] if defect.varies else []),
        "## Lines at fault",
        f"{defect.where}.",
        "## Workaround",
        f"Right by the same measure: {_OWN.sub('', defect.mended_by)}.",
        "## Related",
        "\n".join(f"- {thread}" for thread in defect.threads) or "No thread about it is known to us.",
    ]
    return UpstreamReport(defect.name, "\n\n".join(parts) + "\n", script, output, status == 1 and THERE in output)


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
    lines = [
        "# State of the known defects",
        "| defect | reproduced in | fixed in | not judged in | workaround | threads | report |\n" + 7 * "|---" + "|",
    ]
    rows = []
    for each in compared:
        by = {
            outcome: "; ".join(
                label + (f" ({one.reason})" if one.reason else "")
                for label, one in zip(each.labels(), each.outcomes, strict=True)
                if one.outcome in outcome
            )
            for outcome in (("reproduced",), ("fixed",), ("not applicable", "could not run"))
        }
        report = made[each.defect.name]
        link = "" if report is None else f"[{report.name}.md]({report.name}.md)" if report.shown else "script fails"
        row = [each.defect.title, *by.values(), each.defect.mended_by, ", ".join(each.defect.threads), link]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n\n".join([lines[0], "\n".join([lines[1], *rows])]) + "\n"


def _printed(where: Environment, script: Path) -> tuple[str, int]:
    """Return what a script prints in a process of its own, and how that ends."""
    command = [where.python, "-I", script.name]
    done = subprocess.run(
        command, cwd=script.parent, capture_output=True, text=True, errors="replace", check=False, timeout=_PATIENCE
    )
    return done.stdout if done.returncode in (0, 1) and done.stdout else done.stderr[-2000:], done.returncode
