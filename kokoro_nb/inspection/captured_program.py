"""A file of any format but ONNX as an inspection sees it: each operator that its runtime shows is judged there."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kokoro_nb.backends.signature import TensorSpec, array_of, checked
from kokoro_nb.errors import one_line
from kokoro_nb.inspection.compared_program import ComparedProgram
from kokoro_nb.inspection.input_maker import MadeInputs, varied
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.judged_run import Blame, JudgedRun, OperatorAlone, node_findings
from kokoro_nb.inspection.node_judgement import Far, NodeJudgement, NodeOutputError, distances, is_finite, judgement
from kokoro_nb.inspection.value_types import Arrays, Tell, Value
from kokoro_nb.inspection.whole_file import OutputSummary, imprecise, unread_inputs, unstable
from kokoro_nb.locate.local_error import Judge
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import CONSTANT, TRAINS, Meaning, Tap, Trace

NEARER = 0.1  # of the runtime's error: a second computation in float32 that stays below it proves the kernel wrong


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """One run on the runtime.

    Attributes
    ----------
    captured : dict of str to numpy.ndarray
        The result of each operator that the runtime shows, by its name.
    outputs : dict of str to numpy.ndarray
        The outputs by name.
    again : dict of str to numpy.ndarray
        What a second call gives; empty if there was none, None of a program that keeps state.
    """

    captured: Arrays
    outputs: Arrays
    again: Arrays | None = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramFacts:
    """What is known of a program before it is run.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    runtime : str
        What it is run on, with its version.
    inputs : tuple of TensorSpec
        In order.
    outputs : dict of str to str
        Name of each output -> the operator that gives it; an empty text if none does.
    keys : dict of str to str
        Name of each operator -> its id in Model Explorer, where that is another.
    hidden : dict of str to str
        Operators that cannot be judged, with the reason.
    notes : tuple of str
        What was noticed while it was read.
    """

    path: Path
    runtime: str
    inputs: tuple[TensorSpec, ...]
    outputs: Mapping[str, str]
    keys: Mapping[str, str]
    hidden: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CapturedRun(JudgedRun):
    """What was seen of a program on one set of inputs.

    Attributes
    ----------
    program : CapturedProgram
        The program.
    run : ProgramRun
        What its runtime gave.
    stopped : str
        Why it could not be computed in float64 from the start to the end; empty where it could.
    """

    program: "CapturedProgram"
    run: ProgramRun
    stopped: str = ""

    def blamed(self, judgement: NodeJudgement) -> tuple[Blame, tuple[str, ...]]:
        """Compute the operator in PyTorch, in the file's own types: see `JudgedRun.blamed`."""
        worst, name = judgement.worst, self.program.operators[judgement.index].name
        assert worst is not None
        both = (self.program.recompute(name, self.inputs, self.run.captured, double) for double in (True, False))
        right, second = (array_of(one).astype(np.float64) for one in both)
        if worst.finite < worst.right_finite:
            near = bool((np.isfinite(second) == np.isfinite(right)).all())
        else:
            with np.errstate(invalid="ignore"):
                apart = np.abs(second - right)[np.isfinite(right)]
            near = bool(np.isfinite(apart).all()) and float(apart.max(initial=0.0)) <= NEARER * worst.error
        words = "PyTorch, in the file's own types and on the same values,"
        if near:
            return "runtime", (f"The same operator in {words} agrees with float64.",)
        return "unknown", (f"{words} does not agree with float64 here either.",)

    def division(self, judgement: NodeJudgement) -> tuple[Value, Value] | None:
        """Return divisor and quotient of a division of two results: see `JudgedRun.division`."""
        operator = self.program.operators[judgement.index]
        divisor = self.run.captured.get(operator.inputs[-1]) if operator.kind in ("div", "reciprocal") else None
        return None if divisor is None else (divisor, self.run.captured[operator.name])

    def is_unsound_elsewhere(self, judgement: NodeJudgement) -> bool | None:
        """Run the program on other inputs of the same level: see `JudgedRun.is_unsound_elsewhere`."""
        name = self.program.operators[judgement.index].name
        return not is_finite(self.program.run(varied(self.inputs, 1)).captured.get(name))

    def alone(self, judgement: NodeJudgement, place: Path) -> OperatorAlone:
        """Write an operator by itself: see `JudgedRun.alone`."""
        name = self.program.operators[judgement.index].name
        right = self.program.recompute(name, self.inputs, self.run.captured).numpy().astype(np.float64)
        one = self.program.alone(name, self.inputs, self.run.captured, place)
        return replace(one, values={**one.values, "right": right})


class CapturedProgram(Meaning, Protocol):
    """What `kokoro_nb.inspection.inspecting` asks of a file, and what a format has to offer for it."""

    @property
    def facts(self) -> ProgramFacts:
        """What is known before it is run."""

    def made(self, seed: int = 0) -> MadeInputs:
        """Return valid inputs, and how each was made."""

    def run(self, inputs: Arrays) -> ProgramRun:
        """Run it once on the runtime."""

    def alone(self, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
        """Write one operator into a folder, to be run without this package; InputError says why it cannot be."""

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program; its `compute` knows every operator by name."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(spec.name for spec in self.facts.inputs)

    def static(self) -> InspectionReport:
        """Return what the file says without being run."""
        count = len(self.operators)
        return InspectionReport(self.facts.path, "nothing: not run", (), self.facts.notes, (), (), {}, count)

    def given(self, inputs: Mapping[str, Any]) -> MadeInputs:
        """Return the caller's inputs in the types of the file; InputError if they do not fit."""
        return MadeInputs(checked(inputs, self.facts.inputs), dict.fromkeys(self.inputs, "given"))

    def examined(self, inputs: Arrays, seconds: float = float("inf"), tell: Tell = str) -> CapturedRun:
        """Run it and judge its operators; InputError if the runtime does not take it or stops.

        Parameters
        ----------
        inputs : mapping of str to numpy.ndarray
            For each input of the file.
        seconds : float
            After which no further operators are judged.
        tell : callable
            Is given a line on how far it is.
        """
        until = time.monotonic() + seconds
        run = self.run(inputs)
        tell(f"{self.facts.path.name} ran")
        far, true, stopped = _inherited(self, inputs, run)
        known = {one.name: one for one in self.operators}
        taps = tuple(Tap(known[name], describe(value), value) for name, value in run.captured.items() if name in known)
        judge = Judge(self, Trace(self.facts.runtime, taps, inputs=inputs))
        judgements: list[NodeJudgement] = []
        for index in range(len(self.operators)):
            if time.monotonic() > until:
                break
            judgements.append(_judged(self, judge, run, far, index))
            tell(f"{index + 1} of {len(self.operators)} nodes")
        return CapturedRun(self.operators, tuple(judgements), inputs, run.outputs, true, self, run, stopped)

    def report(self, made: MadeInputs, seen: CapturedRun, tell: Tell = str) -> InspectionReport:
        """Return the report of a run."""
        facts, again, program = self.facts, seen.run.again, self.compared()
        if again is not None and not again and not program.drawing:
            again = self.run(seen.inputs).outputs
        same = {name: again[name].tobytes() == value.tobytes() for name, value in seen.outputs.items()} if again else {}
        given = seen.outputs.items()
        outputs = tuple(OutputSummary.of(name, one, seen.true.get(name), again=same.get(name)) for name, one in given)
        findings, notes = node_findings(seen)
        notes = (*(f"{one} {TRAINS}." for one in program.nodes if one.trains), *notes)
        loud, noted = imprecise(program.nodes, seen.judgements, () if findings else outputs)
        said = (*facts.notes, *unread_inputs(seen.inputs, program.nodes), *filter(None, [seen.stopped]), *notes, *noted)
        found, count = (*findings, *unstable(outputs), *loud), len(seen.nodes)
        return InspectionReport(facts.path, facts.runtime, found, said, seen.judgements, outputs, made.how, count)


def _inherited(program: CapturedProgram, inputs: Arrays, run: ProgramRun) -> tuple[dict[str, Far], Arrays, str]:
    """Return how far each captured result is from float64 from the start, the true outputs, and where that stopped."""
    far: dict[str, Far] = {}
    true: dict[str, np.ndarray] = {}
    ends = {giver: name for name, giver in program.facts.outputs.items()}

    def observe(name: str, right: np.ndarray) -> None:
        if name in ends:
            true[ends[name]] = np.array(right)
        if name in run.captured:
            far[name] = distances([(run.captured[name], right)])

    compared = program.compared()
    if compared.drawing:
        return far, true, f"{compared.drawing} draws at random, so that two runs are not compared."
    try:
        compared.compute(inputs, observe)
    except Exception as error:  # another's file on a third party's operators
        return far, true, f"From the start it could not be computed in float64: {one_line(error)}."
    return far, true, ""


def _judged(program: CapturedProgram, judge: Judge, run: ProgramRun, far: dict[str, Far], index: int) -> NodeJudgement:
    operator, facts = program.operators[index], program.facts
    name, hidden = operator.name, facts.hidden
    about = (index, facts.keys.get(name, name), operator.op)
    shown = "" if name in run.captured else "the runtime does not show its result"
    unseen = (f"its input {one} is not shown" for one in operator.inputs if one in hidden and one not in run.captured)
    reason = hidden.get(name) or shown or next(unseen, "")
    if reason:
        return NodeJudgement(*about, "unknown", reason)
    read = [one for one in judge.upstream(name) if not one.startswith(CONSTANT)]
    finite = all(is_finite(judge.candidate.value(one)) for one in read)
    return judgement(about, finite, lambda: ([NodeOutputError.of(judge.error(name))], []), lambda _: far.get(name))
