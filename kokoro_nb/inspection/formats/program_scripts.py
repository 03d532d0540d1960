"""For each finding in a file of any format but ONNX the operator alone, and a script that shows its error."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.finding_scripts import SCRIPTS, Written, of_one_node, write_each
from kokoro_nb.inspection.formats.runnable_program import RunnableProgram
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.script_text import script

START = """
here = Path(__file__).parent
saved = np.load(here / "values.npz")
"""


def program_scripts(
    program: RunnableProgram, inputs: Mapping[str, np.ndarray], report: InspectionReport, folder: Path
) -> Written:
    """Write the scripts; return their paths, and why there is none for other findings.

    Parameters
    ----------
    program : RunnableProgram
        The file.
    inputs : mapping of str to numpy.ndarray
        What it was run on.
    report : InspectionReport
        What was found.
    folder : path
        Where a folder for each finding is made.
    """
    known = {one.key: one for one in report.judgements if one.index >= 0}
    wanted = any(one.key in known for one in report.findings[:SCRIPTS])
    captured = program.run(inputs).captured if wanted else {}

    def write(finding: InspectionFinding, place: Path) -> Path:
        judgement = of_one_node(finding, known.get(finding.key))
        name = program.operators[judgement.index].name
        right = program.recompute(name, inputs, captured).numpy().astype(np.float64)
        place.mkdir(parents=True, exist_ok=True)
        one = program.alone(name, inputs, captured, place)
        np.savez_compressed(place / "values.npz", right=right, **dict(one.values))  # type: ignore[arg-type]
        path = place / "show.py"
        assert judgement.worst is not None
        imports, _, lines = one.lines.partition("\n\n")
        text = script(finding.statement, one.needs, f"{imports}\n{START}{lines}", judgement.worst.error)
        path.write_text(text, encoding="utf-8")
        return path

    return write_each(report.findings, folder, write)
