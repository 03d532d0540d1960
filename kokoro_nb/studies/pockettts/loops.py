"""The steps and the loop on a runtime: each step by itself, in closed loop, and the utterance against the package's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Backend, Failure, Program, absence
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.backends.signature import Arrays, as_array
from kokoro_nb.models.other_layers import tanh_gelu_written_out
from kokoro_nb.models.pocket.generation import Steps, speak
from kokoro_nb.models.pocket.pocket_steps import StepModule
from kokoro_nb.studies.pockettts.call_by_call import StepCall
from kokoro_nb.studies.pockettts.package_reference import PackageReference, last_calls, said
from kokoro_nb.traces.parity import Parity, compare, largest_error


@dataclass(frozen=True)
class StepRow:
    """One step on one backend.

    Attributes
    ----------
    failure : Failure or None
        Where its export or its run fell.
    own : float
        On the inputs of its last call in the reference: largest difference of any output, of that output's peak.
    chained : float
        The same over all calls of the closed loop, each on what this backend gave before.
    seconds, eager_seconds : float
        Median time of a call, and of a call of the same step in eager PyTorch.
    """

    step: str
    backend: str
    failure: Failure | None = None
    own: float = float("nan")
    chained: float = float("nan")
    calls: int = 0
    seconds: float = float("nan")
    eager_seconds: float = float("nan")

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"step": self.step, "backend": self.backend}
        if self.failure:
            return {**row, "by itself (of peak)": str(self.failure)}
        return {
            **row,
            "by itself (of peak)": self.own,
            "in closed loop (of peak)": self.chained,
            "calls": self.calls,
            "ms a call": 1e3 * self.seconds,
            "eager, ms": 1e3 * self.eager_seconds,
            "of eager's time": self.seconds / self.eager_seconds,
        }


@dataclass(frozen=True)
class RuntimeLoop:
    """The loop on one backend.

    Attributes
    ----------
    absent : str or None
        Why it cannot run here.
    latents, audio : Parity or None
        Of the closed loop, against the package's own; None where a step fell.
    ended : Parity or None
        Latents of the utterance that was ended by the model; None where that is elsewhere.
    frames : int
        Of that utterance; 0 where none was spoken.
    speed : float
        Seconds of audio for each second of the closed loop.
    """

    backend: str
    absent: str | None = None
    steps: tuple[StepRow, ...] = ()
    latents: Parity | None = None
    audio: Parity | None = None
    ended: Parity | None = None
    frames: int = 0
    speed: float = float("nan")

    @property
    def failure(self) -> Failure | None:
        """The first step that fell."""
        return next((row.failure for row in self.steps if row.failure), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"backend": self.backend}
        if self.latents is None or self.audio is None:
            return {**row, "outcome": f"SKIP: {self.absent}" if self.absent else str(self.failure)}
        return {
            **row,
            "outcome": "runs",
            "latents: largest difference": self.latents.max_error,
            "latents (of peak)": self.latents.of_peak,
            "audio (of peak)": self.audio.of_peak,
            "frames until the stop": self.frames,
            "latents until the stop: largest difference": self.ended.max_error if self.ended else "another length",
            "s of audio per s": self.speed,
        }


def exported_steps(modules: Mapping[str, StepModule], gelu_written_out: bool = True) -> dict[str, Exported | Failure]:
    """Export every step, once for all backends.

    Parameters
    ----------
    modules : mapping
        See `models.pocket.steps.step_modules`.
    gelu_written_out : bool
        Whether the formula takes the place of the operator: see `models.other_layers`.
    """
    if not gelu_written_out:
        return {name: export_program(step.module, step.inputs) for name, step in modules.items()}
    with tanh_gelu_written_out():
        return exported_steps(modules, gelu_written_out=False)


def loop_on(name: str, right: PackageReference, exported: Mapping[str, Exported | Failure]) -> RuntimeLoop:
    """Take every step to the backend `name`, and speak the utterance there with nothing but the steps and NumPy.

    Parameters
    ----------
    exported : mapping
        See `exported_steps`.
    """
    absent = absence(backend(name))
    if absent:
        return RuntimeLoop(name, absent)
    runtime = backend(name)
    programs = {step: loaded(runtime, made, right.modules[step].inputs) for step, made in exported.items()}
    rows = tuple(_alone(runtime, step, program, right.calls) for step, program in programs.items())
    if any(row.failure for row in rows):
        return RuntimeLoop(name, steps=rows)
    steps: Steps = {
        step: _fed_back(program, right.modules[step])
        for step, program in programs.items()
        if not isinstance(program, Failure)
    }
    found, calls, seconds = said(steps, right.host, right.utterance)
    ended = speak(steps, replace(right.host, stop_above=right.stop_above), right.utterance)
    return RuntimeLoop(
        name,
        None,
        tuple(_in_loop(row, calls, right.calls) for row in rows),
        compare(right.package.latents, found.latents),
        compare(right.package.audio, found.audio),
        compare(right.ended.latents, ended.latents) if ended.latents.shape == right.ended.latents.shape else None,
        len(ended.latents),
        found.seconds / seconds,
    )


def _fed_back(program: Program, step: StepModule) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """Return a step that takes what it gave: the positions that come out of Core ML are int32."""
    dtypes = {name: as_array(name, value).dtype for name, value in step.inputs.items()}
    return lambda inputs: program.run(
        {name: as_array(name, value).astype(dtypes[name]) for name, value in inputs.items()}
    )


def _alone(runtime: Backend, step: str, program: Program | Failure, calls: Sequence[StepCall]) -> StepRow:
    """Run a step on the inputs of its last call in the reference."""
    last = last_calls(calls)[step]
    found = outputs_of(runtime, program, last.inputs)
    if isinstance(found, Failure):
        return StepRow(step, runtime.name, found)
    eager = float(np.median([call.seconds for call in calls if call.step == step]))
    return StepRow(step, runtime.name, own=largest_error(last.outputs, found), eager_seconds=eager)


def _in_loop(row: StepRow, calls: Sequence[StepCall], right: Sequence[StepCall]) -> StepRow:
    """Add what became of a step in the closed loop."""
    pairs = [(one, other) for one, other in zip(right, calls, strict=True) if one.step == row.step]
    return replace(
        row,
        chained=float(np.max([largest_error(one.outputs, other.outputs) for one, other in pairs])),
        calls=len(pairs),
        seconds=float(np.median([other.seconds for _, other in pairs])),
    )
