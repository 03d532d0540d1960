"""For each finding the operator alone, its values, and a script that shows its error; or why there is none."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from kokoro_nb.defects.defect_bundle import write_shown
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.body_runs import BodyRun, pass_of
from kokoro_nb.inspection.file_run import FileRun
from kokoro_nb.inspection.formats.runnable_program import OperatorAlone, RunnableProgram
from kokoro_nb.inspection.node_judgement import NodeJudgement, judged_outputs
from kokoro_nb.inspection.one_operator import one_operator
from kokoro_nb.inspection.value_types import Arrays

SCRIPTS = 10  # findings for which a script is written
SHOWN = 0.99  # share of the error that it must show
SHOW = "show.py"
Written = tuple[tuple[Path, ...], tuple[str, ...]]
Alone = Callable[[NodeJudgement, Path], OperatorAlone]
"""Writes the operator of a judgement into a folder; its values hold the right result, ``right``, as well."""
Operators = Mapping[str, tuple[NodeJudgement, Alone]]
"""Each operator by its key, for `write_scripts`."""

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
ONNX_LINES = """\
import onnx
import onnxruntime

model = onnx.load(here / "one_node.onnx")
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
given = session.run(None, {{one.name: saved["in." + one.name] for one in session.get_inputs()}})[{output}]
"""


def write_scripts(findings: tuple[InspectionFinding, ...], known: Operators, folder: Path) -> Written:
    """Write a script for each finding and run it; return the paths of those that show the error, and why others do not.

    Parameters
    ----------
    findings : tuple of InspectionFinding
        What was found.
    known : Operators
        See `onnx_operators` and `program_operators`.
    folder : path
        Where a folder for each is made.
    """
    paths: list[Path] = []
    notes: list[str] = []
    for number, finding in enumerate(findings, 1):
        place = folder / f"finding_{number}"
        try:
            if number > SCRIPTS:
                raise InputError(f"scripts are written for the first {SCRIPTS} findings.")
            judgement, alone = known.get(finding.key, (None, None))
            if judgement is None or alone is None or judgement.worst is None:
                raise InputError("it is not found at one operator.")
            if judgement.verdict != "fail" and (finding.kind != "nonfinite" or judgement.finite):
                raise InputError("the operator does what its definition says; it is the comparison that parts here.")
            right = "in a process of its own, on the same values, it is right."
            paths.append(write_shown(place, SHOW, partial(_fill, finding, judgement, alone), {"": 1}, right) / SHOW)
        except InputError as error:
            if (place / SHOW).is_file():  # of an earlier inspection
                shutil.rmtree(place, ignore_errors=True)
            named = finding.key or "the file as a whole"
            notes.append(f"No script for finding {number} ({named}): {error}")
    return tuple(paths), tuple(notes)


def _fill(finding: InspectionFinding, judgement: NodeJudgement, alone: Alone, place: Path) -> None:
    """Write the operator, its values and the script."""
    one = alone(judgement, place)
    assert judgement.worst is not None
    error = judgement.worst.error
    statement = finding.statement.replace("\\", "/").replace('"""', "'''")
    imports, _, lines = one.lines.rstrip().partition("\n\n")
    wrong = "not finite.all()" if finding.kind == "nonfinite" else WRONG.format(least=SHOWN * error)
    about = {"statement": statement, "needs": one.needs, "imports": imports, "lines": lines}
    (place / SHOW).write_text(SCRIPT.format(**about, error=error, wrong=wrong), encoding="utf-8")
    np.savez_compressed(place / "values.npz", **dict(one.values))  # type: ignore[arg-type]


def onnx_operators(seen: FileRun, bodies: tuple[BodyRun, ...]) -> Operators:
    """Return the nodes of an ONNX file for `write_scripts`, those inside of a Loop or If as well."""
    inside: dict[str, tuple[NodeJudgement, Alone]] = {
        f"{run.key}/{one.key}": (one, partial(_of_node, partial(pass_of, seen, run.key, number)))
        for run in bodies
        for number, one in run.worst
    }
    return inside | {one.key: (one, partial(_of_node, lambda: seen)) for one in seen.judgements}


def _of_node(run: Callable[[], FileRun], judgement: NodeJudgement, place: Path) -> OperatorAlone:
    import onnx

    seen = run()
    node = seen.nodes[judgement.index]
    values = seen.captured(node)
    one = one_operator(seen.file, node, values)
    names = list(node.proto.output)
    _, exact = judged_outputs(*seen.call(node, values), [None] * len(names))
    assert judgement.worst is not None
    name = judgement.worst.name
    onnx.save(one.model, place / "one_node.onnx")
    saved = {"right": np.asarray(exact[names.index(name)], np.float64)}
    saved |= {f"in.{key}": array for key, array in one.inputs.items()}
    output = [value.name for value in one.model.graph.output].index(name)
    return OperatorAlone("onnx and onnxruntime", ONNX_LINES.format(output=output), saved)


def program_operators(
    program: RunnableProgram, inputs: Arrays, captured: Arrays, judgements: tuple[NodeJudgement, ...]
) -> Operators:
    """Return the operators of a file of another format for `write_scripts`.

    Parameters
    ----------
    program : RunnableProgram
        The file.
    inputs, captured : mapping of str to numpy.ndarray
        What it was run on, and what its operators gave.
    judgements : tuple of NodeJudgement
        Of its operators.
    """

    def alone(judgement: NodeJudgement, place: Path) -> OperatorAlone:
        name = program.operators[judgement.index].name
        right = program.recompute(name, inputs, captured).numpy().astype(np.float64)
        one = program.alone(name, inputs, captured, place)
        return replace(one, values={**one.values, "right": right})

    return {one.key: (one, alone) for one in judgements if one.index >= 0}
