"""For each finding the operator alone, its values, and a script that shows its error; or why there is none."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np

from kokoro_nb.defects.defect_script import write_shown
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.judged_run import InspectionFinding, JudgedRun
from kokoro_nb.inspection.node_judgement import NodeJudgement

SCRIPTS = 10  # findings for which a script is written
SHOWN = 0.99  # share of the error that it must show
SHOW = "show.py"
Written = tuple[tuple[Path, ...], tuple[str, ...]]

SCRIPT = '''\
"""{statement}

Needs numpy and {needs}. One operator, its input values, and its result in float64; exits with 1 while it is wrong.
"""
import sys
from pathlib import Path

import numpy as np
{imports}

here = Path(__file__).parent
saved = np.load(here / "values.npz")
{lines}
given, right = given.astype(np.float64), saved["right"]
finite, should = np.isfinite(given), np.isfinite(right)
error = np.abs(given - right)[finite & should].max(initial=0.0)
print(f"finite {{finite.mean():.4%}}, should be {{should.mean():.4%}}")
print(f"largest error {{error:.6g}}, in the file {error:.6g}")
sys.exit(int({wrong}))
'''
WRONG = '(finite != should).any() or error >= float("{least:.6g}") > 0'


def write_scripts(findings: tuple[InspectionFinding, ...], seen: JudgedRun, folder: Path) -> Written:
    """Write a script for each finding and run it; return the paths of those that show the error, and why others do not.

    Parameters
    ----------
    findings : tuple of InspectionFinding
        What was found.
    seen : JudgedRun
        Of the file.
    folder : path
        Where a folder for each is made.
    """
    paths: list[Path] = []
    notes: list[str] = []
    known = {one.key: one for one in seen.judgements}
    for number, finding in enumerate(findings, 1):
        place = folder / f"finding_{number}"
        try:
            if number > SCRIPTS:
                raise InputError(f"scripts are written for the first {SCRIPTS} findings.")
            judgement = known.get(finding.key)
            if judgement is None or judgement.worst is None:
                raise InputError("it is not found at one operator.")
            if judgement.verdict != "fail" and (finding.kind != "nonfinite" or judgement.finite):
                raise InputError("the operator does what its definition says; it is the comparison that parts here.")
            right = "in a process of its own, on the same values, it is right."
            paths.append(write_shown(place, SHOW, partial(_fill, finding, judgement, seen), {"": 1}, right) / SHOW)
        except InputError as error:
            if (place / SHOW).is_file():  # of an earlier inspection
                shutil.rmtree(place, ignore_errors=True)
            named = finding.key or "the file as a whole"
            notes.append(f"No script for finding {number} ({named}): {error}")
    return tuple(paths), tuple(notes)


def _fill(finding: InspectionFinding, judgement: NodeJudgement, seen: JudgedRun, place: Path) -> None:
    """Write the operator, its values and the script."""
    one = seen.alone(judgement, place)
    assert judgement.worst is not None
    error = judgement.worst.error
    statement = finding.statement.replace("\\", "/").replace('"""', "'''")
    imports, _, lines = one.lines.rstrip().partition("\n\n")
    wrong = "not finite.all()" if finding.kind == "nonfinite" else WRONG.format(least=SHOWN * error)
    about = {"statement": statement, "needs": one.needs, "imports": imports, "lines": lines}
    (place / SHOW).write_text(SCRIPT.format(**about, error=error, wrong=wrong), encoding="utf-8")
    np.savez_compressed(place / "values.npz", **dict(one.values))  # type: ignore[arg-type]
