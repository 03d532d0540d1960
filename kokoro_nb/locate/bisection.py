"""Find the wrong operator of a program that cannot be looked into: cut it, compile a part alone, and halve.

A part is fed with its inputs of a run that is known to be right, so an error in what comes out arose in it. The
parts shrink, and with them the time that each takes to compile.
"""

import math
import tempfile
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Backend, Failure, running
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.backends.segment import Cuts, Segment, part, real_reads
from kokoro_nb.backends.signature import Arrays, array_of, checked
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import Judge, LocalError
from kokoro_nb.locate.rule_evidence import evidence_of
from kokoro_nb.locate.verdicts import wrong_operator
from kokoro_nb.traces.trace import Recorder, Trace


@dataclass(frozen=True)
class BisectionStep:
    """One part that was compiled alone and run.

    Attributes
    ----------
    first, stop : int
        Its units, the last one excluded, counted from 0.
    wrong : tuple of LocalError
        Those of its results that rounding does not explain, in the order of execution.
    failure : str
        Why it could not be compiled or run; empty if it could.
    right : tuple of LocalError
        Figures of its results that rounding does explain.
    """

    first: int
    stop: int
    wrong: tuple[LocalError, ...] = ()
    failure: str = ""
    right: tuple[LocalError, ...] = ()


@dataclass(frozen=True)
class Bisection:
    """The search for the operator that a backend gets wrong.

    Attributes
    ----------
    backend : str
        Name of the backend.
    units : int
        Number of operators that compute, each with the views that follow it.
    verdict : str
        ``fail``: one operator is wrong, alone and on right inputs. ``unknown``: the whole is wrong, and no single
        operator by itself. ``pass``: every output of the whole is within the rounding-error bound.
    operators : tuple of str
        The operator; or, where that is unknown, those of the smallest part that was seen to be wrong.
    error : LocalError or None
        Of the operator, on right inputs.
    reason : str
        Why it is unknown.
    steps : tuple of BisectionStep
        What was compiled.
    outputs : tuple of LocalError
        Figures of the outputs of the whole, where all of them are right.
    joined : LocalError or None
        Of the smallest part that is wrong, where each of its operators is right alone: of its first wrong result.
    culprit : Culprit or None
        The operator, with the mechanisms of what it read.
    """

    backend: str
    units: int
    verdict: Verdict
    operators: tuple[str, ...] = ()
    error: LocalError | None = None
    reason: str = ""
    steps: tuple[BisectionStep, ...] = ()
    outputs: tuple[LocalError, ...] = ()
    joined: LocalError | None = None
    culprit: Culprit | None = field(default=None, repr=False)

    @property
    def limit(self) -> int:
        """How many compilations it may take to find an operator.

        Where none is wrong by itself, up to twice ceil(log2(units)) more go into finding the smallest part that is.
        """
        return _most_compilations(self.units)

    @property
    def compilations(self) -> int:
        """How many parts were compiled, those included whose artefacts were there already."""
        return len(self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        row = {"verdict": self.verdict, "operators": self.operators, "compilations": self.compilations}
        return {**row, "at most": self.limit, "statement": self.statement}

    @property
    def statement(self) -> str:
        """What was found, in one sentence."""
        if self.verdict == "pass":
            return _unseen(self.outputs)
        cost = f"after {self.compilations} compilations"
        if self.error is not None:
            size = _size(self.error)
            return f"{self.operators[0]} is wrong, alone and on right inputs, by {size}, {cost} (at most {self.limit})."
        part = f"{len(self.operators)} operators from {self.operators[0]} to {self.operators[-1]}"
        return f"No operator is seen to be wrong by itself, {cost}: {self.reason}; the smallest wrong part is {part}."


def _most_compilations(units: int) -> int:
    return math.ceil(math.log2(units)) + 2


def _unseen(outputs: tuple[LocalError, ...]) -> str:
    """Return how far the outputs are off, and how large an error inside has to be for them to show it."""
    floats = [one for one in outputs if one.dtype.startswith("float")]
    if not floats:
        return "Every output is right on these inputs; a fault inside that reaches none would not show."
    off = float(np.max([one.of_peak for one in floats]))  # which keeps NaN
    seen = float(np.max([one.bound_of_peak for one in floats]))
    near = f"Every output is within {off:.2g} of its peak of the result in float64 on these inputs"
    inside = f"a fault inside that moves no output by more than {seen:.2g} of its peak, the rounding-error bound"
    return f"{near}; {inside}, would not show."


def _size(error: LocalError) -> str:
    if np.isinf(error.ratio):
        return f"{int(error.wrong.sum())} of {error.wrong.size} elements that are of another kind or value"
    return f"{error.of_peak:.2g} of the peak, {error.ratio:.2g} times the rounding-error bound"


def bisect(candidate: Exported, inputs: Arrays, backend: Backend, folder: str | Path | None = None) -> Bisection:
    """Find the operator that `backend` gets wrong, by cutting the program.

    A search that was broken off goes on where it was: the artefacts of its parts are in `folder`.

    Parameters
    ----------
    candidate : Exported
        The program, or a copy with faults in it: then what is right comes from the program that it was changed from.
    inputs : mapping
        Array of each input by its name.
    backend : Backend
        Any one that can run what it exports.
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.

    Raises
    ------
    InputError
        If the inputs do not fit, or the backend cannot run here.
    """
    return _Run(running(backend), candidate, checked(inputs, candidate.inputs), folder).search()


class _UnjudgedError(Exception):
    """A part could not be compiled or run."""


@dataclass(eq=False)
class _Run:
    """A search in one program."""

    backend: Backend
    candidate: Exported
    inputs: dict[str, np.ndarray]
    folder: str | Path | None
    steps: dict[tuple[int, int, bool], BisectionStep] = field(default_factory=dict)
    bar: Any = None

    @cached_property
    def cuts(self) -> Cuts:
        return Cuts(self.candidate)

    @cached_property
    def reference(self) -> Trace:
        """What every operator of the healthy program gives in float32."""
        healthy = self.candidate.specification.named_by or self.candidate.specification
        recorder = Recorder(healthy.operators, "full")
        healthy.run(self.inputs, lambda name, result: recorder.add(name, array_of(result)))
        return recorder.trace("eager", self.inputs, {}, "operator by operator", healthy)

    def search(self) -> Bisection:
        """Look for the operator."""
        from tqdm import tqdm

        most, title = _most_compilations(len(self.cuts)), f"bisection on {self.backend.name}"
        with tqdm(total=most, desc=title, unit="part", disable=None) as self.bar:
            whole = self.step(0, len(self.cuts))
            try:
                return self._halved() if self._wrong(whole) else self._found("pass", (), outputs=whole.right)
            except _UnjudgedError as error:
                wrong = [one for one in self.steps.values() if one.wrong] or [whole]
                return self._unknown(wrong[-1], str(error))

    def _halved(self) -> Bisection:
        unit, stop = 0, len(self.cuts)
        while stop - unit > 1:  # of several that are wrong it comes to the first
            middle = (unit + stop) // 2
            if self._wrong(self.step(unit, middle, inside=middle - unit == 1)):
                stop = middle
            else:
                unit = middle
        last = self.step(unit, unit + 1, inside=True)
        if self._wrong(last):
            culprit = alone_wrong(last.wrong[0], self.reference, self.backend.name)
            return self._found("fail", culprit.candidates, error=last.wrong[0], culprit=culprit)
        suspect = ", ".join(self.cuts.names(unit, unit + 1))
        smallest = self._smallest([one for one in self.steps.values() if one.wrong][-1])
        reason = f"the rest, {suspect}, is right when it is compiled alone"
        return self._unknown(smallest, reason, joined=smallest.wrong[0])

    def _smallest(self, failing: BisectionStep) -> BisectionStep:
        """Return the smallest part that still fails: it ends no later than it must, and then begins no earlier."""
        first = failing.first
        ends = range(first + 1, failing.stop)
        stop = first + 1 + bisect_left(ends, True, key=lambda stop: bool(self.step(first, stop).wrong))
        begins = range(first + 1, stop)
        return self.step(first + bisect_left(begins, True, key=lambda begin: not self.step(begin, stop).wrong), stop)

    def _wrong(self, step: BisectionStep) -> bool:
        if step.failure:
            raise _UnjudgedError(step.failure)
        return bool(step.wrong)

    def step(self, first: int, stop: int, inside: bool = False) -> BisectionStep:
        """Compile units, run them on right inputs, and hold every output against what is right; each part once."""
        key = first, stop, inside
        if key not in self.steps:
            cut = self.cuts.part(first, stop, inside=inside)
            found = cut and judged_alone(cut, self.reference, self.backend, self.folder)
            failure, errors = (str(found), ()) if isinstance(found, Failure) else ("", found or ())
            wrong = tuple(error for error in errors if error.unexplained)
            right = tuple(error.without_tensors() for error in errors if not error.unexplained)
            self.steps[key] = BisectionStep(first, stop, wrong, failure, right)
            self.bar.update()
        return self.steps[key]

    def _found(self, verdict: Verdict, operators: tuple[str, ...], **about: Any) -> Bisection:
        steps = tuple(self.steps.values())
        return Bisection(self.backend.name, len(self.cuts), verdict, operators, steps=steps, **about)

    def _unknown(self, failing: BisectionStep, reason: str, **about: Any) -> Bisection:
        return self._found("unknown", self.cuts.names(failing.first, failing.stop), reason=reason, **about)


def judged_alone(
    cut: Segment, reference: Trace, backend: Backend, folder: str | Path | None, dtype: np.dtype | None = None
) -> tuple[LocalError, ...] | Failure:
    """Compile a part, run it on right inputs, and return the error of each of its results.

    Each is compared with all operators from what is known to it, computed in float64: the inputs of the program, what
    the part was fed, and other results.

    Parameters
    ----------
    cut : Segment
        The part.
    reference : Trace
        Of PyTorch, with whole tensors.
    backend : Backend
        Where it is compiled.
    folder : path or None
        Where artefacts are saved.
    dtype : numpy.dtype, optional
        That in which the runtime computes floats: what a model of one operator gives may be held in a wider one.
    """
    captured = reference.values
    given = cut.inputs(reference.inputs, captured)
    if any(np.iscomplexobj(one) for one in given.values()):
        return Failure(backend.name, "run", "TypeError", "no part that is compiled alone can be given complex numbers")
    outputs = outputs_of(backend, loaded(backend, cut.exported, given, folder), given)
    if isinstance(outputs, Failure):
        return outputs
    results = cut.taken(outputs)
    if dtype is not None and dtype.kind == "f":
        with np.errstate(over="ignore"):
            results = {name: one.astype(dtype) if one.dtype.kind == "f" else one for name, one in results.items()}
    known = {**{name: captured[name] for name in cut.fed.values()}, **results}
    recorder = Recorder([one for one in reference.meaning.operators if one.name in known], "full")
    for name, value in known.items():
        recorder.add(name, value)
    judge = Judge(reference.meaning, recorder.trace("", reference.inputs, {}, "parts compiled alone"))
    return tuple(judge.error(name) for name in results)


MOST = 4  # operators of which one is wrong, and wrong results of which that is asked


def narrowed(found: tuple[Culprit, ...], runtime: Backend, program: Exported, reference: Trace) -> tuple[Culprit, ...]:
    """Return the culprits; of several operators of which one is wrong, the first that is wrong alone, if one is.

    Parameters
    ----------
    found : tuple of Culprit
        What `divergences` found.
    runtime : Backend
        Where each is compiled alone.
    program : Exported
        The program.
    reference : Trace
        Of PyTorch, with whole tensors: what each is given.
    """
    several = [one for one in found if 1 < len(one.candidates) <= MOST][:MOST]
    alone = {id(one): _first_wrong(one, runtime, program, reference) for one in several}
    return tuple(alone.get(id(one)) or one for one in found)


def _first_wrong(culprit: Culprit, runtime: Backend, candidate: Exported, reference: Trace) -> Culprit | None:
    dtype = np.dtype(culprit.tap.statistics.dtype)
    for operator in candidate.specification.operators:
        given = real_reads(candidate, operator.name)
        real = not operator.dtype.startswith("complex")
        if operator.name not in culprit.candidates or not real or any(one not in reference.values for one in given):
            continue
        with tempfile.TemporaryDirectory() as room:
            errors = judged_alone(part(candidate, given, [operator.name]), reference, runtime, room, dtype)
        if not isinstance(errors, Failure) and errors[0].unexplained:
            found = alone_wrong(errors[0], reference, culprit.backend)
            if culprit.mechanisms and (not found.mechanisms or errors[0].given.shape != errors[0].right.shape):
                found = replace(found, mechanisms=culprit.mechanisms)
            return replace(found, seen_in=culprit.captured, reaches_output=culprit.reaches_output)
    return None


def alone_wrong(error: LocalError, reference: Trace, backend: str) -> Culprit:
    """Return an operator that is wrong where it is compiled alone, with the mechanisms of what it read.

    Parameters
    ----------
    error : LocalError
        Of the operator.
    reference : Trace
        Of PyTorch, with what the operator read.
    backend : str
        Where it was compiled.
    """
    return wrong_operator(evidence_of(error, error.operator.inputs, reference.meaning, reference), backend)
