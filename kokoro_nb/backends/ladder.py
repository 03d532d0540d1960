"""One climb of the export ladder: patched, exported, lowered, serialised, loaded, run, and run again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kokoro_nb.backends.base import Artifact, Backend, Failure, Program, Rung, RungError, on_rung
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError

Outputs = dict[str, np.ndarray]
_EAGER = Eager("eager")
T = TypeVar("T")


@dataclass(frozen=True)
class Climb:
    """How far an export came, and what it gave.

    Attributes
    ----------
    backend : str
        Name of the backend.
    failure : Failure or None
        Where it fell, if it did.
    seconds : dict
        Wall time of each rung that was reached; ``run`` is the first call. Rungs of a cached artefact carry the times
        of when it was made.
    calls : tuple of float
        Wall time of each call on the one loaded program, seconds.
    artifact : Artifact or None
        What was exported.
    eager : dict or None
        Outputs of the module itself in float32, by name.
    outputs : dict or None
        Outputs of the first call.
    drift : float or None
        Largest absolute difference of any later call to the first, over all outputs: 0 if they are the same, NaN if a
        value was not a number in one of the two only. None if there was no second call.
    unexecuted : str
        Why the artefact was made and not run, where the runtime is not here.
    """

    backend: str
    failure: Failure | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[float, ...] = ()
    artifact: Artifact | None = None
    eager: Outputs | None = None
    outputs: Outputs | None = None
    drift: float | None = None
    unexecuted: str = ""

    @property
    def size(self) -> int:
        """Bytes of the artefact."""
        return self.artifact.size if self.artifact else 0


def climb(backend: Backend, module: Any, inputs: Arrays, folder: str | Path | None = None, calls: int = 3) -> Climb:
    """Take `module` up the ladder of `backend` and run it there `calls` times on one loaded program.

    Parameters
    ----------
    backend : Backend
        One of `BACKENDS`.
    module : torch.nn.Module, Exported or Failure
        The module as it is, patched, or what `exported.export_program` made of it.
    inputs : mapping
        Name of a parameter of its forward -> tensor; exported for and run on.
    folder : path, optional
        Where artefacts are kept; ``artefacts`` in the cache by default.
    calls : int
        Number of calls, at least 1.

    Returns
    -------
    Climb
        With the failure in it, if there was one.

    Raises
    ------
    InputError
        If the inputs do not fit the module, or `calls` is less than 1.
    """
    if calls < 1:
        raise InputError(f"{calls} calls are too few; give 1 or more.")
    reference = _EAGER.export(module, inputs)
    if isinstance(reference, Failure):
        return Climb(backend.name, failure=replace(reference, backend=backend.name))
    seconds: dict[str, float] = {}
    times: list[float] = []
    results: list[Outputs] = []
    eager, artifact, failure = None, None, None
    try:
        with on_rung("patched", seconds):
            eager = _EAGER.load(reference).run(inputs)
        made = backend.export(module, inputs, folder)
        if isinstance(made, Failure):
            return Climb(backend.name, made, seconds, eager=eager)
        artifact = made
        seconds |= artifact.seconds
        reason = backend.executes()
        if reason:
            return Climb(backend.name, None, seconds, artifact=artifact, eager=eager, unexecuted=reason)
        with on_rung("loaded", seconds):
            program = backend.load(artifact)
        for _ in range(calls):
            clock: dict[str, float] = {}
            with on_rung("run", clock):
                results.append(program.run(inputs))
            times.append(clock["run"])
    except RungError as error:
        failure = error.failure(backend.name)
    if times:
        seconds["run"] = times[0]
    drift = float(np.max([difference(results[0], later) for later in results[1:]])) if len(results) > 1 else None
    outputs = results[0] if results else None
    return Climb(backend.name, failure, seconds, tuple(times), artifact, eager, outputs, drift)


def loaded(backend: Backend, module: Any, inputs: Arrays, folder: str | Path | None = None) -> Program | Failure:
    """Export `module` to `backend` and load it there; return the failure where that falls. Arguments as of `climb`."""
    made = backend.export(module, inputs, folder)
    return made if isinstance(made, Failure) else attempted(backend, "loaded", partial(backend.load, made))


def outputs_of(backend: Backend, program: Program | Failure, inputs: Arrays) -> Outputs | Failure:
    """Run what `loaded` returned; return the failure where it fell, now or before."""
    return program if isinstance(program, Failure) else attempted(backend, "run", partial(program.run, inputs))


def attempted(backend: Backend, rung: Rung, call: Callable[[], T]) -> T | Failure:
    """Return what a call returns; the failure where it falls."""
    try:
        with on_rung(rung):
            return call()
    except RungError as error:
        return error.failure(backend.name)


def difference(first: Outputs, second: Outputs) -> float:
    """Return the largest absolute difference of two sets of outputs; two NaN differ by 0.

    >>> difference({"y": np.array([1.0, np.nan])}, {"y": np.array([1.5, np.nan])})
    0.5
    >>> difference({"y": np.array([1.0])}, {"y": np.array([np.nan])})
    nan
    """
    largest = [0.0]
    for name in first.keys() | second.keys():
        a, b = first[name], second[name]
        kind = np.complex128 if np.iscomplexobj(a) else np.float64
        apart = ~((a == b) | ((a != a) & (b != b)))
        gaps = np.abs(a[apart].astype(kind) - b[apart].astype(kind))
        largest.append(float(gaps.max()) if gaps.size else 0.0)
    return float(np.max(largest))
