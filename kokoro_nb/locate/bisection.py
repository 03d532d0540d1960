"""Find the wrong operator of a program that cannot be looked into: cut it, compile a part alone, and halve.

A part is fed with what went into it in a run that is known to be right, so an error in what comes out arose in it. The
parts shrink, and with them the time that each takes to compile.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Backend, Failure, RungError, on_rung, running
from kokoro_nb.backends.cuts import Cuts
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import Segment
from kokoro_nb.backends.signature import Arrays, array_of, checked
from kokoro_nb.backends.specification import Specification
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.local_error import Judge, LocalError
from kokoro_nb.traces.trace import Recorder


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
        operator by itself. ``pass``: every output of the whole is within what rounding explains.
    operators : tuple of str
        The operator; or, where that is unknown, those of the smallest part that was seen to be wrong.
    limit : int
        How many compilations it may take to find an operator: ceil(log2(units)) + 2. Where none is wrong by itself, up
        to twice ceil(log2(units)) more go into finding the smallest part that is.
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
    """

    backend: str
    units: int
    verdict: Verdict
    operators: tuple[str, ...] = ()
    limit: int = 0
    error: LocalError | None = None
    reason: str = ""
    steps: tuple[BisectionStep, ...] = ()
    outputs: tuple[LocalError, ...] = ()
    joined: LocalError | None = None

    @property
    def culprits(self) -> tuple[str, ...]:
        """The operator that was found wrong, alone; none where none was."""
        return self.operators if self.verdict == "fail" else ()

    @property
    def compilations(self) -> int:
        """How many parts were compiled, those included whose artefacts were there already."""
        return len(self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "verdict": self.verdict,
            "operators": self.operators,
            "compilations": self.compilations,
            "at most": self.limit,
            "statement": self.statement,
        }

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


def _unseen(outputs: tuple[LocalError, ...]) -> str:
    """Return how far the outputs are off, and how large an error inside has to be for them to show it."""
    floats = [one for one in outputs if one.dtype.startswith("float")]
    if not floats:
        return "No output differs from what is right on these inputs; an error inside that reaches none is not seen."
    # np.max keeps NaN
    off, seen = (
        float(np.max(each)) for each in zip(*((one.of_peak, one.bound_of_peak) for one in floats), strict=True)
    )
    return (
        f"No output differs from the operators in float64 by more than {off:.2g} of its peak on these inputs; an error "
        f"inside that moves none by more than {seen:.2g} of its peak, what rounding explains, would not be seen."
    )


def _size(error: LocalError) -> str:
    if np.isinf(error.ratio):
        return f"{int(error.wrong.sum())} of {error.wrong.size} elements that are of another kind or value"
    return f"{error.of_peak:.2g} of the peak, {error.ratio:.2g} times what rounding explains"


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


@dataclass(eq=False)
class _Run:
    """A search in one program."""

    backend: Backend
    candidate: Exported
    inputs: dict[str, np.ndarray]
    folder: str | Path | None
    steps: list[BisectionStep] = field(default_factory=list)
    bar: Any = None

    @cached_property
    def cuts(self) -> Cuts:
        return Cuts(self.candidate)

    @cached_property
    def healthy(self) -> Specification:
        specification = self.candidate.specification
        return specification.named_by or specification

    @cached_property
    def captured(self) -> dict[str, np.ndarray]:
        """Result of every operator of the healthy program, in float32."""
        found: dict[str, np.ndarray] = {}

        def observe(name: str, result: Any) -> None:
            found[name] = np.array(array_of(result))

        self.healthy.run(self.inputs, observe)
        return found

    def search(self) -> Bisection:
        """Look for the operator."""
        from tqdm import tqdm

        about = f"bisection on {self.backend.name}"
        with tqdm(total=self.limit, desc=about, unit="part", disable=None) as self.bar:
            whole = self.step(0, len(self.cuts))
            if whole.failure:
                return self._unknown(whole, whole.failure)
            return self._halve(whole) if whole.wrong else self._found("pass", (), outputs=whole.right)

    def _halve(self, failing: BisectionStep) -> Bisection:
        first, stop = failing.first, failing.stop
        while stop - first > 1:
            middle = (first + stop) // 2
            step = self.step(first, middle, inside=middle - first == 1)
            if step.failure:
                return self._unknown(failing, step.failure)
            if step.wrong:
                stop, failing = middle, step
            else:
                first = middle
        alone = len(self.cuts) > 1 and (failing.first, failing.stop) == (first, stop)
        last = failing if alone else self.step(first, stop, inside=True)
        if last.failure:
            return self._unknown(failing, last.failure)
        if last.wrong:
            error = last.wrong[0]
            return self._found("fail", (error.operator.name,), error=error)
        suspect = ", ".join(self.cuts.names(first, stop))
        reason = f"what was left, {suspect}, is right when it is compiled alone"
        smallest = self._smallest(failing)
        return replace(self._unknown(smallest, reason), joined=smallest.wrong[0])

    def _smallest(self, failing: BisectionStep) -> BisectionStep:
        """Return the smallest part that still fails: it ends no later than it must, and then begins no earlier."""
        first, stop = failing.first, failing.stop
        enough = first
        while stop - enough > 1:
            step = self.step(first, (enough + stop) // 2)
            if step.wrong:
                failing, stop = step, step.stop
            else:
                enough = step.stop
        right = stop
        while right - first > 1:
            step = self.step((first + right) // 2, stop)
            if step.wrong:
                failing, first = step, step.first
            else:
                right = step.first
        return failing

    def step(self, first: int, stop: int, inside: bool = False) -> BisectionStep:
        """Compile units, run them on right inputs, and hold every output against what is right."""
        cut = self.cuts.part(first, stop, inside=inside)
        found: tuple[LocalError, ...] = ()
        failure = ""
        if cut is not None:
            try:
                results = self._ran(cut)
                fed = {name: self.captured[name] for name in cut.fed.values()}
                found = judged_results(self.healthy, self.inputs, fed, results)
            except RungError as error:
                failure = str(error.failure(self.backend.name))
        wrong = tuple(error for error in found if error.unexplained)
        right = tuple(error.without_tensors() for error in found if not error.unexplained)
        step = BisectionStep(first, stop, wrong, failure, right)
        self.steps.append(step)
        self.bar.update()
        return step

    def _ran(self, cut: Segment) -> dict[str, np.ndarray]:
        fed = cut.inputs(self.inputs, self.captured)
        made = self.backend.export(cut.exported, fed, self.folder)
        if isinstance(made, Failure):
            raise _Fallen(made)
        with on_rung("loaded"):
            program = self.backend.load(made)
        with on_rung("run"):
            return cut.taken(program.run(fed))

    @property
    def limit(self) -> int:
        return math.ceil(math.log2(len(self.cuts))) + 2

    def _found(self, verdict: Verdict, operators: tuple[str, ...], **about: Any) -> Bisection:
        known = (self.backend.name, len(self.cuts), verdict, operators, self.limit)
        return Bisection(*known, steps=tuple(self.steps), **about)

    def _unknown(self, failing: BisectionStep, reason: str) -> Bisection:
        return self._found("unknown", self.cuts.names(failing.first, failing.stop), reason=reason)


def judged_results(
    healthy: Specification,
    inputs: Mapping[str, np.ndarray],
    fed: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray],
) -> tuple[LocalError, ...]:
    """Return the error of each of `results`, in their order.

    Each is compared with all operators from what is known to it, computed in float64: the inputs of the program, what
    was `fed`, and other results.

    Parameters
    ----------
    healthy : Specification
        What the operators compute.
    inputs : mapping
        Array of each input of the program by its name.
    fed, results : mapping
        Arrays by the name of the operator: what the part was fed with, and what it gave.
    """
    known = {**fed, **results}
    recorder = Recorder([one for one in healthy.operators if one.name in known], "full")
    for name, value in known.items():
        recorder.add(name, value)
    judge = Judge(healthy, recorder.trace("", inputs, {}, "parts compiled alone"))
    return tuple(judge.error(name) for name in results)


class _Fallen(RungError):
    """An export that failed, with the record of it."""

    def __init__(self, record: Failure):
        super().__init__(record.rung)
        self._record = record

    def failure(self, backend: str) -> Failure:
        return self._record
