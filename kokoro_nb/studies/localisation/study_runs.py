"""One run of a program with everything captured, and what a healthy one gives."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError
from kokoro_nb.studies.decoder import Subject
from kokoro_nb.studies.localisation.methods import Method, View
from kokoro_nb.traces.parity import compare
from kokoro_nb.traces.trace import Keep, Trace

Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Healthy:
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
    outputs: Outputs
    floor: float


def healthy_on(name: str, subject: Subject) -> Healthy:
    """Run the healthy program in PyTorch, in float64, and on the backend called `name`."""
    reference = run_of("eager", subject.exported, subject, {})
    exact = run_of("eager-float64", subject.exported, subject, {}, "stats")
    own = reference if name == "eager" else run_of(name, subject.exported, subject, {}, "stats")
    return Healthy(reference, own.outputs, difference(exact.outputs, own.outputs))


def run_of(name: str, exported: Exported, subject: Subject, seconds: dict[str, float], keep: Keep = "full") -> Trace:
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
        return trace_of(artifact, subject, seconds, keep)


def trace_of(artifact: Artifact, subject: Subject, seconds: dict[str, float], keep: Keep = "full") -> Trace:
    """Run an artefact once with everything captured."""
    with timed("traced", seconds):
        return backend(artifact.backend).load(artifact).trace(subject.inputs, "all", keep)


def asked(methods: Mapping[str, Method], view: View, seconds: dict[str, float]) -> dict[str, tuple[str, ...]]:
    """Return what each method names."""
    named = {}
    for method, ask in methods.items():
        with timed(method, seconds):
            named[method] = tuple(ask(view))
    return named


def difference(healthy: Outputs, given: Outputs) -> float:
    """Return the largest difference of any output as a share of its peak; NaN as soon as one is not finite."""
    return float(np.max([compare(healthy[name], given[name]).of_peak for name in healthy]))


@contextmanager
def timed(what: str, seconds: dict[str, float]) -> Iterator[None]:
    """Add the wall time of what is inside to ``seconds[what]``."""
    start = perf_counter()
    try:
        yield
    finally:
        seconds[what] = seconds.get(what, 0.0) + perf_counter() - start
