"""A file of any format but ONNX run, each operator judged on what it was given, and what was found."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kokoro_nb.errors import one_line
from kokoro_nb.findings import Verdict
from kokoro_nb.inspection.blame import Blame, InspectionFinding, stated
from kokoro_nb.inspection.file_run import is_finite, relative_noise
from kokoro_nb.inspection.formats.runnable_program import ProgramRun, RunnableProgram
from kokoro_nb.inspection.input_maker import MadeInputs
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.node_judgement import NodeJudgement, NodeOutputError, is_float
from kokoro_nb.inspection.references import varied
from kokoro_nb.inspection.value_types import Arrays, Tell
from kokoro_nb.inspection.whole_file import OutputSummary, imprecise, unread_inputs
from kokoro_nb.locate.local_error import Judge, LocalError
from kokoro_nb.traces.operators import CONSTANT, INPUT
from kokoro_nb.traces.parity import relative_difference
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap, Trace

NEARER = 0.1  # of the runtime's error: a second computation in float32 that stays below it proves the kernel wrong


def program_report(
    program: RunnableProgram, made: MadeInputs, seconds: float = float("inf"), tell: Tell = str
) -> InspectionReport:
    """Run a program and judge its operators.

    Parameters
    ----------
    program : RunnableProgram
        The program.
    made : MadeInputs
        For each of its inputs.
    seconds : float
        After which no further operators are judged.
    tell : callable
        Is given a line on how far it is.

    Raises
    ------
    InputError
        If the runtime does not take it or stops.
    """
    until = time.monotonic() + seconds
    facts, inputs = program.facts, made.arrays
    run = program.run(inputs)
    tell(f"{facts.path.name} ran")
    far, true, stopped = _inherited(program, inputs, run)
    known = {one.name: one for one in program.operators}
    taps = tuple(Tap(known[name], describe(value), value) for name, value in run.captured.items() if name in known)
    judge = Judge(program, Trace(facts.runtime, taps, inputs=inputs))
    judgements: list[NodeJudgement] = []
    findings: list[InspectionFinding] = []
    noted_at_nodes: list[str] = []
    late = []
    for index, operator in enumerate(program.operators):
        if time.monotonic() > until:
            late.append(f"The time was up after {len(judgements):,} of {len(program.operators):,} nodes.")
            break
        judgement, error = _judged(program, judge, run, far, index)
        judgements.append(judgement)
        if error is not None and judgement.verdict == "fail":
            findings.append(_wrong(program, judgement, error, inputs, run))
        elif not judgement.finite and judgement.given_finite:
            finding, note = _not_finite(program, operator.name, judgement, inputs, run, bool(findings))
            findings += [finding] if finding else []
            noted_at_nodes += [note] if note else []
        if index % 50 == 49:
            tell(f"{index + 1} of {len(program.operators)} nodes")
    outputs = _summaries(program, inputs, run, true)
    loud, noted = imprecise(program.compared().nodes, judgements, outputs, bool(findings))
    unstable = [
        InspectionFinding(
            "unstable",
            "runtime",
            f"A second call gives another output '{one.name}'.",
            proof=("The inputs are the same bits.",),
        )
        for one in outputs
        if one.again is False
    ]
    unsound = [name for name, value in inputs.items() if not is_finite(value)]
    if unsound:
        findings.insert(0, InspectionFinding("nonfinite", "input", f"The input '{unsound[0]}' itself is not finite."))
    return InspectionReport(
        facts.path,
        facts.runtime,
        (*findings, *unstable, *loud),
        (*facts.notes, *unread_inputs(inputs, program.compared().nodes), *stopped, *noted_at_nodes, *late, *noted),
        tuple(judgements),
        outputs,
        made.how,
        len(program.operators),
        graph=facts.graph,
    )


Far = Mapping[str, tuple[float, float, bool]]


def _inherited(
    program: RunnableProgram, inputs: Arrays, run: ProgramRun
) -> tuple[Far, dict[str, np.ndarray], tuple[str, ...]]:
    """Return how far each captured result is from float64 from the start, the true outputs, and where that stopped."""
    far: dict[str, tuple[float, float, bool]] = {}
    true: dict[str, np.ndarray] = {}
    ends = {giver: name for name, giver in program.facts.outputs.items()}

    def observe(name: str, right: np.ndarray) -> None:
        if name in ends:
            true[ends[name]] = np.array(right)
        value = run.captured.get(name)
        if value is not None and (is_float(value.dtype) or value.dtype.kind in "iub"):
            far[name] = (relative_difference(value, right), relative_noise(value, right), is_finite(right))

    try:
        program.compared().compute(inputs, observe)
    except Exception as error:  # another's file on a third party's operators
        return far, true, (f"From the start it could not be computed in float64: {one_line(error)}.",)
    return far, true, ()


def _judged(
    program: RunnableProgram, judge: Judge, run: ProgramRun, far: Far, index: int
) -> tuple[NodeJudgement, LocalError | None]:
    operator = program.operators[index]
    about = (index, program.facts.keys.get(operator.name, operator.name), operator.op)
    hidden = program.facts.hidden.get(operator.name, "")
    if not hidden and operator.name not in run.captured:
        hidden = "the runtime does not show what it gives"
    if hidden:
        return NodeJudgement(*about, "unknown", hidden), None
    read = [one for one in operator.inputs if not one.startswith(CONSTANT)]
    unseen = [one for one in read if not one.startswith(INPUT) and one not in run.captured]
    if unseen and unseen[0] in program.facts.hidden:
        return NodeJudgement(*about, "unknown", f"what goes into it, {unseen[0]}, is not shown"), None
    finite = all(is_finite(judge.value(one)) for one in judge.upstream(operator.name))
    try:
        error = judge.error(operator.name)
    except Exception as why:  # another's file on a third party's operators: it is not judged, and says why
        reason = f"it could not be compared: {one_line(why)}"
        return NodeJudgement(*about, "unknown", reason, given_finite=finite), None
    inherited, noise, sound = far.get(operator.name, (None, None, None))
    output = _output(operator.name, error)
    verdict: Verdict = "fail" if output.is_wrong else "pass"
    found = NodeJudgement(*about, verdict, "", (output,), inherited, finite, sound, False, noise)
    return found, error


def _output(name: str, error: LocalError) -> NodeOutputError:
    """Return a local error as the error of an output."""
    given, right = np.asarray(error.given), np.asarray(error.right)
    dtype = np.dtype(error.dtype) if error.dtype else given.dtype
    with np.errstate(invalid="ignore"):
        apart = np.abs(given.astype(np.float64) - right.astype(np.float64))
    ranked = np.where(error.wrong, 1e300, 0.0) + np.where(np.isfinite(apart), np.minimum(apart, 1e299), 0.0)
    worst = tuple(int(k) for k in np.unravel_index(int(np.argmax(ranked)), ranked.shape)) if ranked.size else ()
    return NodeOutputError.of(name, dtype, given, right, error.error, error.peak, error.ratio, error.wrong, worst)


def _wrong(
    program: RunnableProgram, judgement: NodeJudgement, error: LocalError, inputs: Arrays, run: ProgramRun
) -> InspectionFinding:
    """Return who is to blame for an operator that rounding does not explain: a second computation decides."""
    worst = judgement.outputs[0]
    kind = "nonfinite" if worst.finite < worst.right_finite else "wrong"
    second = program.recompute(error.operator.name, inputs, run.captured, double=False).numpy()
    with np.errstate(invalid="ignore"):
        apart = np.abs(second.astype(np.float64) - error.right)[np.isfinite(error.right)]
    near = bool(np.isfinite(apart).all()) and float(apart.max(initial=0.0)) <= NEARER * error.error
    if kind == "nonfinite":
        near = bool((np.isfinite(second) == np.isfinite(error.right)).all())
    blame: Blame = "runtime" if near else "unknown"
    proof = (
        "The same operator in PyTorch, in the file's own types and on the same values, agrees with float64."
        if near
        else "PyTorch, in the file's own types and on the same values, does not agree with float64 here either."
    )
    return InspectionFinding.at(judgement, kind, blame, stated(judgement, worst), proof)


def _not_finite(
    program: RunnableProgram, name: str, judgement: NodeJudgement, inputs: Arrays, run: ProgramRun, began: bool
) -> tuple[InspectionFinding | None, str]:
    """Return who is to blame for an operator that rightly gives what is not finite, out of finite values."""
    worst = judgement.outputs[0]
    share = f"{1 - worst.finite:.2%} of its result ({worst.dtype})"
    statement = f"{judgement.key} ({judgement.operator}) gives the first values that are not finite: {share}."
    if judgement.true_finite:
        proof = f"In float64 from the start the same file is finite here: it is beyond {worst.dtype}."
        return InspectionFinding.at(judgement, "nonfinite", "precision", statement, proof), ""
    if began or all(is_finite(value) for value in run.outputs.values()):
        note = f"{judgement.key} gives {share} that is not finite; no output of the file shows it."
        return None, "" if began else note
    other = program.run(varied(inputs, 1)).captured.get(name)
    again = other is not None and not is_finite(other)
    words = "On other inputs it is not finite either." if again else "On other inputs it is finite."
    law = "The operator does what its definition says, and float64 from the start is not finite here either."
    return InspectionFinding.at(judgement, "nonfinite", "file" if again else "input", statement, law, words), ""


def _summaries(program: RunnableProgram, inputs: Arrays, run: ProgramRun, true: Arrays) -> tuple[OutputSummary, ...]:
    again = None if run.again is None else run.again or program.run(inputs).outputs
    return tuple(
        OutputSummary.of(
            name, value, true.get(name), again=None if again is None else again[name].tobytes() == value.tobytes()
        )
        for name, value in run.outputs.items()
    )


def with_findings(report: InspectionReport, found: InspectionFinding | None, note: str) -> InspectionReport:
    """Return a report with what a comparison found added in its place."""
    findings = sorted([*report.findings, *([found] if found else [])], key=lambda one: (one.index < 0, one.index))
    return replace(report, findings=tuple(findings), notes=(*report.notes, note))
