"""For each finding the operator alone, its values, and a script that shows its error; or why there is none."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.body_runs import BodyRun, pass_of
from kokoro_nb.inspection.file_run import FileRun
from kokoro_nb.inspection.formats.runnable_program import RunnableProgram
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.node_judgement import NodeJudgement, judged_outputs
from kokoro_nb.inspection.one_operator import one_operator, script, tried, write_script
from kokoro_nb.inspection.value_types import Arrays

SCRIPTS = 10  # findings for which a script is written
Written = tuple[tuple[Path, ...], tuple[str, ...]]


def write_each(
    findings: tuple[InspectionFinding, ...], folder: Path, write: Callable[[InspectionFinding, Path], Path]
) -> Written:
    """Write a script for each finding and run it; return the paths of those that show the error, and why others do not.

    Parameters
    ----------
    findings : tuple of InspectionFinding
        What was found.
    folder : path
        Where a folder for each is made.
    write : callable
        Writes one into a folder and returns the script's path; raises InputError with the reason if it cannot.
    """
    paths: list[Path] = []
    notes: list[str] = []
    for number, finding in enumerate(findings, 1):
        place = folder / f"finding_{number}"
        try:
            if number > SCRIPTS:
                raise InputError(f"scripts are written for the first {SCRIPTS} findings.")
            path = write(finding, place)
            tried(path, finding.kind)
            paths.append(path)
        except InputError as error:
            shutil.rmtree(place, ignore_errors=True)
            named = finding.key or "the file as a whole"
            notes.append(f"No script for finding {number} ({named}): {error}")
    return tuple(paths), tuple(notes)


def of_one_node(finding: InspectionFinding, judgement: NodeJudgement | None) -> NodeJudgement:
    """Return the judgement of a finding's node.

    Raises
    ------
    InputError
        If it is not the node by itself that is wrong.
    """
    if judgement is None or judgement.worst is None:
        raise InputError("it is not found at one operator.")
    if judgement.verdict != "fail" and (finding.kind != "nonfinite" or judgement.finite):
        raise InputError("the operator does what its definition says; it is the comparison that parts here.")
    return judgement


def write_scripts(
    seen: FileRun, bodies: tuple[BodyRun, ...], findings: tuple[InspectionFinding, ...], folder: Path
) -> Written:
    """Write the scripts of an ONNX file, for nodes inside of a Loop or If as well."""
    known = {one.key: one for one in seen.judgements}
    inside = {f"{run.key}/{one.key}": (run, number, one) for run in bodies for number, one in run.worst}

    def write(finding: InspectionFinding, place: Path) -> Path:
        if finding.key in inside and finding.key not in known:
            run, number, judgement = inside[finding.key]
            return _written(pass_of(seen, run.key, number), of_one_node(finding, judgement), finding, place)
        return _written(seen, of_one_node(finding, known.get(finding.key)), finding, place)

    return write_each(findings, folder, write)


def _written(run: FileRun, judgement: NodeJudgement, finding: InspectionFinding, place: Path) -> Path:
    node = run.nodes[judgement.index]
    values = run.captured(node)
    call, inputs = run.call(node, values)
    one = one_operator(run.file, node, values)
    _, exact = judged_outputs(call, inputs, [None] * len(node.proto.output))
    worst = judgement.worst
    assert worst is not None
    right = exact[list(node.proto.output).index(worst.name)]
    return write_script(place, one, finding.statement, worst.name, np.asarray(right), worst.error)


START = """
here = Path(__file__).parent
saved = np.load(here / "values.npz")
"""


def program_scripts(program: RunnableProgram, inputs: Arrays, report: InspectionReport, folder: Path) -> Written:
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
