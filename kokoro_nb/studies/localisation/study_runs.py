"""One run of a program with everything captured, and the methods that name the operator that is wrong in it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError
from kokoro_nb.locate import divergences
from kokoro_nb.studies.decoder import DecoderProgram
from kokoro_nb.traces.parity import largest_error
from kokoro_nb.traces.trace import Keep, Trace

OR = " or "  # between the names of operators of which one is wrong


@dataclass(frozen=True)
class TracePair:
    """What a method is given: two traces of whole tensors on the same inputs.

    Attributes
    ----------
    reference : Trace
        Of the healthy program in PyTorch.
    candidate : Trace
        Of the program in question.
    """

    reference: Trace
    candidate: Trace


Method = Callable[[TracePair], tuple[str, ...]]


def by_divergence(pair: TracePair) -> tuple[str, ...]:
    """Return the operators that `locate.divergences` finds wrong; several joined by `OR` where one of them is."""
    found = divergences(pair.reference, pair.candidate)
    return tuple(OR.join(culprit.candidates) or culprit.tap.name for culprit in found if culprit.tap)


METHODS: Mapping[str, Method] = {"first divergence": by_divergence}


@dataclass(frozen=True)
class HealthyRun:
    """What the healthy program gives.

    Attributes
    ----------
    reference : Trace
        In PyTorch, whole tensors.
    outputs : mapping
        On the backend.
    floor : float
        Largest difference of these from float64, as a share of the peak.
    """

    reference: Trace
    outputs: Mapping[str, np.ndarray]
    floor: float


def healthy_on(name: str, subject: DecoderProgram) -> HealthyRun:
    """Run the healthy program in PyTorch, in float64, and on the backend called `name`."""
    reference = run_of("eager", subject.program, subject, {})
    exact = run_of("eager-float64", subject.program, subject, {}, "stats")
    own = reference if name == "eager" else run_of(name, subject.program, subject, {}, "stats")
    return HealthyRun(reference, own.outputs, largest_error(exact.outputs, own.outputs))


def run_of(
    name: str, exported: Exported, subject: DecoderProgram, seconds: dict[str, float], keep: Keep = "full"
) -> Trace:
    """Export a program, run it once with everything captured, and leave no artefact behind.

    Raises
    ------
    InputError
        If it cannot be exported.
    """
    with TemporaryDirectory() as folder:
        with timed("exported", seconds):
            artifact = backend(name).export(exported, subject.inputs, folder)
        if isinstance(artifact, Failure):
            raise InputError(str(artifact))
        with timed("traced", seconds):
            return backend(name).load(artifact).trace(subject.inputs, "all", keep)


@contextmanager
def timed(what: str, seconds: dict[str, float]) -> Iterator[None]:
    """Add the wall time of what is inside to ``seconds[what]``."""
    start = perf_counter()
    try:
        yield
    finally:
        seconds[what] = seconds.get(what, 0.0) + perf_counter() - start
