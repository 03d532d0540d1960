"""The whole pipeline checked step by step: which step is wrong by itself, and which only hands on what it was given.

Every step is exported alone and run twice: on what the reference gave to it (its own error), and on what the candidate
gave before it (what it inherits and adds). Only what is valid is compared; the padded tail is described apart.
"""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from kokoro.model import KModel
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, Program, RungError, on_rung, running
from kokoro_nb.backends.ladder import Outputs
from kokoro_nb.errors import InputError
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import static_inputs
from kokoro_nb.models.steps import chain
from kokoro_nb.studies.validate_steps.step_rows import Step, with_floor
from kokoro_nb.studies.validate_steps.tails import tail_of, valid_part
from kokoro_nb.studies.validate_steps.walks import Walk
from kokoro_nb.traces.parity import compare


def walk(
    model: KModel,
    case: Case,
    name: str = "eager",
    frames: int | None = None,
    tokens: int | None = None,
    patches: Sequence[str] = EXPORT_PATCHES,
    folder: str | Path | None = None,
) -> Walk:
    """Run the pipeline on the reference, step by step, each on what the one before gave.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        Captured from it.
    name : str
        Key of `BACKENDS`.
    frames : int, optional
        Room for frames: more than the utterance has are padding, fewer cut it; as many by default.
    tokens : int, optional
        Room for tokens; as many as there are by default.
    patches : sequence of str
        Patches that are on.
    folder : path, optional
        Where artefacts are kept.

    Raises
    ------
    InputError
        If a step does not run there, or there is too little room.
    """
    room = case.frames if frames is None else frames
    inputs = static_inputs(case, room, tokens)
    values: Outputs = {key: tensor.numpy() for key, tensor in inputs.items()}
    with patched(model, patches):
        for step, module in chain(model, room).items():
            program = _program(name, module, _feed(module, values), folder)
            made = _outputs(name, program, _feed(module, values))
            if isinstance(made, Failure):
                raise InputError(f"The step '{step}' does not run on the reference: {made}; choose another.")
            values |= made
    count = int(inputs["attention_mask"].sum())
    lasting = min(int(values["pred_dur"].sum()), room)  # what lasts longer was cut by the alignment
    return Walk(name, inputs, values, count, lasting, room, tuple(patches))


def follow(
    model: KModel, reference: Walk, name: str, folder: str | Path | None = None, only: Sequence[str] = ()
) -> tuple[Step, ...]:
    """Take the candidate through the steps of `reference`, by itself and on its own chain.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; the one that the reference ran, or one with a fault in it.
    reference : Walk
        What it is held against.
    name : str
        Key of `BACKENDS`.
    folder : path, optional
        Where artefacts are kept.
    only : sequence of str
        Names of steps, where not all are to be run.

    Returns
    -------
    tuple of Step
        One for each output, in the order of computation. A step that falls is one row per output with its failure, and
        what needs it has no chained figure.
    """
    running(backend(name))
    chained: Outputs = {key: tensor.numpy() for key, tensor in reference.inputs.items()}
    rows: list[Step] = []
    with patched(model, reference.patches):
        steps = chain(model, reference.room)
        if set(only) - set(steps):
            raise InputError(f"There is no step '{min(set(only) - set(steps))}'; use one of {', '.join(steps)}.")
        for step, module in steps.items():
            if only and step not in only:
                continue
            fed = _feed(module, reference.values)
            program = _program(name, module, fed, folder)
            own = _outputs(name, program, fed)
            missing = [key for key in fed if key not in chained]
            after = _outputs(name, program, _feed(module, chained)) if not missing else None
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
    patches: Sequence[str] = EXPORT_PATCHES,
    folder: str | Path | None = None,
) -> tuple[Step, ...]:
    """Check the whole pipeline on one utterance, step by step: `walk` on the reference, then `follow`.

    The floor, eager float32 against eager float64, stands beside every figure.

    Parameters
    ----------
    model, case, frames, tokens, patches, folder
        See `walk`.
    candidate, reference : str
        Keys of `BACKENDS`.
    """
    where = (frames, tokens, patches, folder)
    floor = follow(model, walk(model, case, "eager-float64", *where), "eager", folder)
    return with_floor(follow(model, walk(model, case, reference, *where), candidate, folder), floor)


def _row(
    reference: Walk, step: str, output: str, own: Outputs | Failure, after: Outputs | Failure | None, reason: str
) -> Step:
    if isinstance(own, Failure):
        return Step(step, output, failure=own, reason=reason)
    expected, valid = reference.values[output], reference.valid
    part = valid_part(output, expected, valid)
    shown = after[output] if isinstance(after, dict) else own[output]
    values = valid_part(output, shown, valid).astype(np.float64)
    finite = values[np.isfinite(values)]
    return Step(
        step,
        output,
        shown.shape,
        float(finite.min()) if finite.size else float("nan"),
        float(finite.max()) if finite.size else float("nan"),
        compare(part, valid_part(output, own[output], valid)),
        compare(part, values) if isinstance(after, dict) else None,
        tail_of(output, shown, valid),
        tail_of(output, expected, valid),
        None,
        reason,
    )


def _feed(module: nn.Module, values: Mapping[str, np.ndarray]) -> Outputs:
    """Return what the forward of `module` takes, so far as it is there; float64 is rounded to float32."""
    names = [name for name in inspect.signature(module.forward).parameters if name in values]
    return {name: _single(values[name]) for name in names}


def _single(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32) if value.dtype == np.float64 else value


def _program(name: str, module: nn.Module, fed: Outputs, folder: str | Path | None) -> Program | Failure:
    import torch

    runtime = backend(name)
    made = runtime.export(module, {key: torch.from_numpy(value) for key, value in fed.items()}, folder)
    if isinstance(made, Failure):
        return made
    try:
        with on_rung("loaded"):
            return runtime.load(made)
    except RungError as error:
        return error.failure(name)


def _outputs(name: str, program: Program | Failure, fed: Outputs) -> Outputs | Failure:
    if isinstance(program, Failure):
        return program
    try:
        with on_rung("run"):
            return program.run(fed)
    except RungError as error:
        return error.failure(name)
