"""The whole pipeline checked step by step: which step is wrong by itself, and which only passes an inherited error on.

Every step is exported alone and run twice: on what the reference gave to it (its own error), and on what the candidate
gave before it (what it inherits and adds). Only what is valid is compared.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Backend, Failure, running
from kokoro_nb.backends.ladder import Outputs, loaded, outputs_of
from kokoro_nb.errors import InputError
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import patched
from kokoro_nb.models.stages import chain
from kokoro_nb.models.static_buffers import EXTENTS, static_inputs
from kokoro_nb.studies.validate_steps.step_rows import StepResult, with_floor
from kokoro_nb.traces.statistics import Parity, compare

MAGNITUDES = {"har_phase": "har_magnitude"}  # an output that is a phase -> the one that says how much there is of it


@dataclass(frozen=True)
class Walk:
    """The pipeline as the reference ran it.

    Attributes
    ----------
    inputs : dict
        What the pipeline was given, in its static buffers: see `models.buffers.static_inputs`.
    values : dict
        Every output by name, as it was computed.
    tokens, frames : int
        How much of the buffers is valid: tokens of the text, and the frames that they last, or all there is room for.
    room : int
        Frames that there is room for.
    """

    backend: str
    inputs: Mapping[str, Tensor]
    values: Outputs = field(repr=False)
    tokens: int
    frames: int
    room: int

    @property
    def valid(self) -> dict[str, int]:
        """Valid length of the two axes that can be padded."""
        return {"tokens": self.tokens, "frames": self.frames}


def walk(
    model: KModel,
    case: Case,
    name: str = "eager",
    frames: int | None = None,
    tokens: int | None = None,
    folder: str | Path | None = None,
) -> Walk:
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
        made = outputs_of(runtime, loaded(runtime, module, _tensors(fed), folder), fed)
        if isinstance(made, Failure):
            raise InputError(f"The step '{step}' does not run on the reference: {made}; choose another.")
        values |= made
    count = int(inputs["attention_mask"].sum())
    lasting = min(int(values["pred_dur"].sum()), room)  # what lasts longer was cut by the alignment
    return Walk(name, inputs, values, count, lasting, room)


def follow(
    model: KModel, reference: Walk, name: str | Backend, folder: str | Path | None = None, only: Sequence[str] = ()
) -> tuple[StepResult, ...]:
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
    runtime = backend(name) if isinstance(name, str) else name
    running(runtime)
    chained: Outputs = {key: tensor.numpy() for key, tensor in reference.inputs.items()}
    rows: list[StepResult] = []
    steps = chain(model, reference.room)
    if set(only) - set(steps):
        raise InputError(f"There is no step '{min(set(only) - set(steps))}'; use one of {', '.join(steps)}.")
    for step, module in steps.items():
        if only and step not in only:
            continue
        fed = _feed(module, reference.values)
        program = loaded(runtime, module, _tensors(fed), folder)
        own = outputs_of(runtime, program, fed)
        missing = [key for key in fed if key not in chained]
        after = outputs_of(runtime, program, _feed(module, chained)) if not missing else None
        if isinstance(after, dict):
            chained |= after
        reason = f"no {', '.join(missing)}" if missing else str(after) if isinstance(after, Failure) else ""
        rows += [_row(reference, step, output, own, after, reason) for output in module.output_names]
    return tuple(rows)


def validate_steps(
    model: KModel,
    case: Case,
    candidate: str,
    reference: str = "eager-float64",
    frames: int | None = None,
    tokens: int | None = None,
    folder: str | Path | None = None,
) -> tuple[StepResult, ...]:
    """Check the whole pipeline on one utterance, step by step: `walk` on the reference, then `follow`.

    The floor, eager float32 against eager float64, stands beside every figure.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; those of an export are on meanwhile.
    case, frames, tokens, folder
        See `walk`.
    """
    where = (frames, tokens, folder)
    with patched(model):
        floor = follow(model, walk(model, case, "eager-float64", *where), "eager", folder)
        return with_floor(follow(model, walk(model, case, reference, *where), candidate, folder), floor)


def _row(
    reference: Walk, step: str, output: str, own: Outputs | Failure, after: Outputs | Failure | None, reason: str
) -> StepResult:
    if isinstance(own, Failure):
        return StepResult(step, output, failure=own, reason=reason)
    chained = _against(reference, output, after[output]) if isinstance(after, dict) else None
    return StepResult(step, output, _against(reference, output, own[output]), chained, None, reason)


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


def _tensors(arrays: Outputs) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def valid_part(name: str, value: np.ndarray, valid: Mapping[str, int]) -> np.ndarray:
    """Return the valid part of the output `name`, for so many valid ``tokens`` and ``frames``."""
    lengths = {extent.axis: extent.length(valid) for extent in EXTENTS[name]}
    return value[tuple(slice(lengths.get(axis)) for axis in range(value.ndim))]
