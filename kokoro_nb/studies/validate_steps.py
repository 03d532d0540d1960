"""13 asks at which step of the pipeline a runtime departs from PyTorch, and which steps only pass errors on.

Every step is exported alone and run twice: on what the reference gave to it (its own error), and on what the candidate
gave before it (what it inherits and adds). Only what is valid is compared.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Backend, Failure, absence, running
from kokoro_nb.backends.ladder import Outputs, loaded, outputs_of
from kokoro_nb.errors import InputError
from kokoro_nb.models.case import Case, static_inputs
from kokoro_nb.models.padding import EXTENTS
from kokoro_nb.models.patches import patched
from kokoro_nb.models.stages import chain
from kokoro_nb.traces.statistics import Parity, allowed_error, compare

MAGNITUDES = {"har_phase": "har_magnitude"}  # an output that is a phase -> the one that says how much there is of it


@dataclass(frozen=True)
class StepResult:
    """One output of one step on the candidate.

    Attributes
    ----------
    step, output : str
        Names of the step and of its output: see `models.stages.chain`.
    own : Parity or None
        On the reference's inputs, against the reference; of a phase, as `phasors`.
    chained : Parity or None
        On what the candidate gave before, against the reference.
    failure : Failure or None
        Where the export or the run of the step failed.
    reason : str
        Why there is no chained figure, where there is none.
    floor, chained_floor : Parity or None
        `own` and `chained` of eager float32 against eager float64, on request: what follows the phase of
        `har` has a chained floor so high that a chained error below it means nothing.
    """

    step: str
    output: str
    own: Parity | None = None
    chained: Parity | None = None
    failure: Failure | None = None
    reason: str = ""
    floor: Parity | None = None
    chained_floor: Parity | None = None

    @property
    def over_floor(self) -> float | None:
        """How many times its own error is that of eager float32; None where that is 0 or not known."""
        if self.own is None or self.floor is None or self.floor.max_error == 0:
            return None
        return self.own.max_error / self.floor.max_error

    def holds(self, limit: float) -> bool:
        """Say whether the step by itself is finite and within `limit` of the peak.

        Where the floor is known, it may be off by a few times that, see `allowed_error`.
        """
        if self.own is None or self.own.finite < 1:
            return False
        return self.own.of_peak <= allowed_error(limit, None if self.floor is None else self.floor.of_peak)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"step": self.step, "output": self.output}
        if self.failure:
            return {**row, "own error (of peak)": str(self.failure)}
        for name, parity, floor in (("own", self.own, self.floor), ("chained", self.chained, self.chained_floor)):
            if parity is not None:
                row |= {f"{name}: finite (%)": 100 * parity.finite, f"{name} error (of peak)": parity.of_peak}
                row |= {f"{name} floor (of peak)": floor.of_peak} if floor else {}
                row[f"{name} correlation"] = parity.correlation
        if self.over_floor is not None:
            row["own over floor"] = self.over_floor
        if self.reason:
            row["chained error (of peak)"] = self.reason
        return row


def first_wrong(steps: Sequence[StepResult], limit: float = 1e-3) -> StepResult | None:
    """Return the first step that is wrong by itself: fell, not finite, or further than `limit` of the peak."""
    return next((step for step in steps if not step.holds(limit)), None)


def with_floor(steps: Sequence[StepResult], floor: Sequence[StepResult]) -> tuple[StepResult, ...]:
    """Return `steps` with what `floor`, the same steps of eager float32 against eager float64, beside them."""
    return tuple(
        replace(step, floor=under.own, chained_floor=under.chained) for step, under in zip(steps, floor, strict=True)
    )


@dataclass(frozen=True)
class StepErrors:
    """The steps of one utterance on each runtime, by its name; for a figure."""

    found: Mapping[str, Sequence[StepResult]]


@contextmanager
def planted(model: Any, parameter: str, channel: int, value: float = float("nan")) -> Iterator[None]:
    """Set one channel of a parameter to `value` inside, and bring it back, bit for bit, on leaving.

    Parameters
    ----------
    parameter : str
        Its name in ``named_parameters()``.
    channel : int
        Index along its first axis.
    value : float
        NaN, infinity, or any number.

    Raises
    ------
    InputError
        If there is no such parameter or channel.
    """
    found = dict(model.named_parameters()).get(parameter)
    if found is None:
        raise InputError(f"The model has no parameter '{parameter}'; use a name of its named_parameters().")
    if not 0 <= channel < found.shape[0]:
        raise InputError(f"'{parameter}' has {found.shape[0]} channels and no channel {channel}; count from 0.")
    before = found.data[channel].clone()
    found.data[channel] = value
    try:
        yield
    finally:
        found.data[channel] = before


@dataclass(frozen=True)
class Walk:
    """The pipeline as the reference ran it.

    Attributes
    ----------
    inputs : dict
        What the pipeline was given, in its static buffers: see `models.case.static_inputs`.
    values : dict
        Every output by name, as it was computed.
    valid : mapping of str to int
        How much of the buffers is valid: ``tokens`` of the text, and the ``frames`` that they last, or all there is
        room for.
    room : int
        Frames that there is room for.
    """

    inputs: Mapping[str, Tensor]
    values: Outputs = field(repr=False)
    valid: Mapping[str, int]
    room: int


def walk(model: KModel, case: Case, name: str = "eager", frames: int | None = None, tokens: int | None = None) -> Walk:
    """Run the pipeline on the reference, step by step, each on what the one before gave.

    Parameters
    ----------
    model : kokoro.model.KModel
        Patched as it is to be exported.
    frames : int, optional
        Room for frames: more than the utterance has are padding, fewer cut it; as many by default.
    tokens : int, optional
        Room for tokens; as many as there are by default.

    Raises
    ------
    InputError
        If a step does not run there, or there is too little room.
    """
    room = case.frames if frames is None else frames
    inputs = static_inputs(case, room, tokens)
    values: Outputs = {key: tensor.numpy() for key, tensor in inputs.items()}
    runtime = backend(name)
    for step, module in chain(model, room).items():
        fed = _feed(module, values)
        made = outputs_of(runtime, loaded(runtime, module, fed), fed)
        if isinstance(made, Failure):
            raise InputError(f"The step '{step}' does not run on the reference: {made}; choose another.")
        values |= made
    lasting = min(int(values["pred_dur"].sum()), room)  # what lasts longer was cut by the alignment
    return Walk(inputs, values, {"tokens": int(inputs["attention_mask"].sum()), "frames": lasting}, room)


def follow(model: KModel, reference: Walk, name: str | Backend) -> tuple[StepResult, ...]:
    """Take the candidate through the steps of `reference`, by itself and on its own chain.

    Parameters
    ----------
    model : kokoro.model.KModel
        Patched as it was for the reference; the same, or one with a fault in it.
    name : str or Backend
        The candidate.

    Returns
    -------
    tuple of StepResult
        One for each output, in the order of computation. A step that falls is one row per output with its failure, and
        what needs it has no chained figure.
    """
    runtime = running(backend(name) if isinstance(name, str) else name)
    chained: Outputs = {key: tensor.numpy() for key, tensor in reference.inputs.items()}
    rows: list[StepResult] = []
    for step, module in chain(model, reference.room).items():
        fed = _feed(module, reference.values)
        program = loaded(runtime, module, fed)
        own = outputs_of(runtime, program, fed)
        missing = [key for key in fed if key not in chained]
        after = outputs_of(runtime, program, _feed(module, chained)) if not missing else None
        if isinstance(after, dict):
            chained |= after
        reason = f"no {', '.join(missing)}" if missing else str(after) if isinstance(after, Failure) else ""
        failure = own if isinstance(own, Failure) else None
        for output in module.output_names:
            runs = (own, after) if failure is None else (None, None)
            alone, along = (_against(reference, output, run[output]) if isinstance(run, dict) else None for run in runs)
            rows.append(StepResult(step, output, alone, along, failure, reason))
    return tuple(rows)


def validate_steps(
    model: KModel,
    case: Case,
    candidate: str,
    reference: str = "eager-float64",
    frames: int | None = None,
    tokens: int | None = None,
) -> tuple[StepResult, ...]:
    """Check the whole pipeline on one utterance, step by step: `walk` on the reference, then `follow`.

    The floor, eager float32 against eager float64, stands beside every figure.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; those of an export are on meanwhile.
    case, frames, tokens
        See `walk`.
    """
    with patched(model):
        floor = follow(model, walk(model, case, "eager-float64", frames, tokens), "eager")
        return with_floor(follow(model, walk(model, case, reference, frames, tokens), candidate), floor)


def _against(reference: Walk, output: str, found: np.ndarray) -> Parity:
    """Compare the valid part of an output with the reference's; a phase as `phasors` of the reference's magnitude."""
    pair = [valid_part(output, value, reference.valid) for value in (reference.values[output], found)]
    if output in MAGNITUDES:
        magnitude = valid_part(MAGNITUDES[output], reference.values[MAGNITUDES[output]], reference.valid)
        pair = [phasors(phase, magnitude) for phase in pair]
    return compare(*pair)


def phasors(phase: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    """Return magnitude·cos(phase) and magnitude·sin(phase) along a first axis of 2, in float64.

    A phase of a bin that holds little but rounding may be anything, and pi is -pi; as the angle of a vector as long as
    the magnitude, each counts by how much there is of it.

    Parameters
    ----------
    phase : numpy.ndarray
        In radians.
    magnitude : numpy.ndarray, of the shape of `phase`
    """
    angle, length = np.asarray(phase, np.float64), np.asarray(magnitude, np.float64)
    return np.stack([length * np.cos(angle), length * np.sin(angle)])


def _feed(module: nn.Module, values: Mapping[str, np.ndarray]) -> Outputs:
    """Return what the forward of `module` takes, so far as it is there, in PyTorch's own dtypes."""
    own = {"float64": "float32", "int32": "int64"}  # Core ML gives int32 for int64
    names = [name for name in inspect.signature(module.forward).parameters if name in values]
    return {name: values[name].astype(own.get(str(values[name].dtype), values[name].dtype)) for name in names}


def valid_part(name: str, value: np.ndarray, valid: Mapping[str, int]) -> np.ndarray:
    """Return the valid part of the output `name`, for so many valid ``tokens`` and ``frames``."""
    lengths = {extent.axis: extent.length(valid) for extent in EXTENTS[name]}
    return value[tuple(slice(lengths.get(axis)) for axis in range(value.ndim))]
