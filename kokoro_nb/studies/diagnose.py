"""00: what is diagnosed, a module of the user's own, or Kokoro's decoder, exported, with example inputs."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.exported import Exported, export_program, snapshot
from kokoro_nb.backends.signature import checked, example_inputs
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.faults import Fault, plant
from kokoro_nb.inspection.procedure import made_by
from kokoro_nb.locate.paired_programs import with_inputs
from kokoro_nb.storage import read_arrays

NORM = "decoder.generator.noise_res.0.adain1.0.norm"  # behind the convolution whose channels hardly vary


@dataclass(frozen=True)
class Target:
    """A program and inputs for it.

    Attributes
    ----------
    label : str
        What it is, weights included.
    healthy, candidate : Exported or Failure
        The program as it should be, and with the faults that were planted; the same without any. Of a module that
        PyTorch does not export, how that failed.
    inputs : mapping
        Name -> tensor.
    reference : pair or None
        What the program was rewritten from and inputs for that, where the function names it.
    weights : str
        Label of its weights.
    note : str
        What was made on purpose; empty where nothing was.
    known : str
        Module path of the operator that is known to be the first wrong one; empty where none is.
    sample_rate : int
        Of its output, in Hz; 0 where that is no audio.
    """

    label: str
    healthy: Exported | Failure
    candidate: Exported | Failure
    inputs: Mapping[str, Any]
    reference: tuple[Any, Mapping[str, Any]] | None = None
    weights: str = "of that module"
    note: str = ""
    known: str = ""
    sample_rate: int = 0


def diagnosed_subject(
    module: str = "",
    weights: str = "mini",
    patches: str | Sequence[str] | None = "all",
    inputs: str = "",
    text: str = "Hello world.",
    seed: int = 0,
    frames: int = 24,
    channels: int = 0,
) -> Target:
    """Return what is to be diagnosed.

    Parameters
    ----------
    module : str
        ``file.py:function`` or ``package.module:function`` that returns a module and its example inputs; empty for
        Kokoro's decoder from `har`, the spectrum of its harmonic source, on.
    weights, text, seed, frames
        Of Kokoro: `load_model`'s weights, what it speaks, the seed of its noise, and the length, 40 to the second.
    patches : str or sequence of str
        ``all`` that an export of Kokoro takes, ``all but A, B``, ``none``, or names; only names count for a module.
    inputs : str
        An .npz file of inputs by name, in place of the example inputs.
    channels : int
        Of Kokoro: how many channels of one convolution are made nearly constant, as trained models may hold them.

    Raises
    ------
    InputError
        If there is no such module, patch or file, or the inputs do not fit.
    """
    from kokoro_nb.models.architecture import SAMPLE_RATE
    from kokoro_nb.models.patches import chosen_patches

    chosen, file = chosen_patches(patches), Path(inputs) if inputs else None
    if module:
        named = () if isinstance(patches, str) and patches.startswith("all") else chosen
        return replace(own_module(module, [], named, file), label=f"The module of {module}")
    found = kokoro_decoder(weights, seed, text, frames, [], chosen, channels)
    given, note, known = found.inputs, "", ""
    if file and isinstance(found.candidate, Exported):
        given = checked({**given, **read_arrays(file)}, found.candidate.inputs)
    if channels:
        note = f"Made wrong on purpose: {channels} channels of one convolution hardly vary beside a large mean."
        known = NORM if chosen == chosen_patches("all but two_pass_norm") else ""
    label = f"Kokoro's decoder, {frames / 40:g} s of speech"
    return replace(found, label=label, inputs=given, note=note, known=known, sample_rate=SAMPLE_RATE)


def kokoro_decoder(
    weights: str, seed: int, text: str, frames: int, faults: list[str], patches: Sequence[str], channels: int = 0
) -> Target:
    """Return Kokoro's decoder from `har` with `patches` on and `faults` planted; arguments as on the command line.

    Parameters
    ----------
    channels : int
        See `diagnosed_subject`.

    Raises
    ------
    InputError
        If the weights or a patch are unknown, a fault fits nowhere, or PyTorch cannot export it with these patches.
    """
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.studies.decoder import decoder_program, with_constant_channels

    planted = [Fault.parse(fault) for fault in faults]
    with quietly():
        kokoro = load_model(weights, seed)
        case = capture(kokoro, text, seed=seed)
    label, model = kokoro.weights.label, kokoro.model
    if channels:
        model, label = with_constant_channels(model, channels), f"{label}, {channels} channels nearly constant"
    decoder, about = decoder_program(model, case, frames, patches=patches), f"decoder from har, {frames} frames"
    return replace(_planted(f"{about}, weights {label}", decoder.program, decoder.inputs, planted), weights=label)


def own_module(
    target: str, faults: list[str], patches: Sequence[str] = (), inputs: Path | None = None, dynamic: Sequence[str] = ()
) -> Target:
    """Return what a function of the user's own makes: a module and example inputs for it.

    Parameters
    ----------
    target : str
        The function, as `made_by` takes it.
    faults : list of str
        Faults to plant, as `Fault.parse` reads them.
    patches : sequence of str
        Names of patches that are on while it is exported; each has to find something in it to change.
    inputs : path, optional
        An ``.npz`` file with an array for each input, in place of the function's.
    dynamic : sequence of str
        Axes of open size: see `open_shapes`.

    Raises
    ------
    InputError
        If it cannot be imported or called, returns something else, a patch changes nothing in it, or it does not run.
    """
    planted = [Fault.parse(fault) for fault in faults]
    module, given, reference = made_by(target)
    if inputs is not None:
        example, given = given, read_arrays(inputs)
        reference = with_inputs(reference, example, given)
    if isinstance(module, Exported):  # exported already, with patches that the function had on
        if patches:
            exported = f"{target} returns a program that is exported already"
            raise InputError(f"{exported}, to which no patch applies; drop them.")
        checked(given, module.inputs)
        return replace(_planted(target, module, given, planted), reference=reference)
    with _patched(module, patches) if patches else nullcontext():
        exported = _exported(target, module, given, open_shapes(dynamic, given))
    return replace(_planted(target, exported, given, planted), reference=reference)


def open_shapes(dynamic: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what `torch.export.export` takes as dynamic shapes; None where all are fixed.

    Parameters
    ----------
    dynamic : sequence of str
        ``NAME:AXIS``, or ``NAME:AXIS:MOST`` with the greatest size, for each open axis of an input.
    inputs : mapping
        The example inputs.

    Raises
    ------
    InputError
        If one is not of that form, or there is no such input or axis.
    """
    found: dict[str, Any] = {}
    for text in dynamic:
        name, *numbers = text.split(":")
        if len(numbers) not in (1, 2) or not all(one.isdigit() for one in numbers):
            raise InputError(f"'{text}' is no open axis; write NAME:AXIS, or NAME:AXIS:MOST with the greatest size.")
        axis, *most = map(int, numbers)
        if name not in inputs or axis >= len(inputs[name].shape):
            sizes = ", ".join(f"{one} {tuple(value.shape)}" for one, value in inputs.items())
            raise InputError(f"There is no axis {axis} of an input '{name}'; the inputs are {sizes}.")
        dim = torch.export.Dim(f"{name}_{axis}", max=most[0]) if most else torch.export.Dim.AUTO
        found.setdefault(name, {})[axis] = dim
    return found or None


def _patched(module: Any, patches: Sequence[str]) -> AbstractContextManager[Any]:
    """Return a context in which patches are on, each of which finds something in `module` to change."""
    from kokoro_nb.models.patches import PATCHES, patched, require_known

    require_known(patches)
    for name in patches:
        if not PATCHES[name].finds(module):
            raise InputError(f"The patch '{name}' finds nothing in a {type(module).__name__} to change; leave it out.")
    return patched(module, patches)


def _exported(target: str, module: Any, inputs: Mapping[str, Any], shapes: Mapping[str, Any] | None) -> Any:
    import numpy as np

    try:
        given = {name: torch.as_tensor(x) if isinstance(x, np.ndarray) else x for name, x in inputs.items()}
        with torch.no_grad():
            snapshot(module)(**given)  # which may change its buffers
    except Exception as error:
        example_inputs(module, dict.fromkeys(inputs, np.zeros(1)))  # a name that the forward does not have
        raise InputError(f"The module of {target} fails in eager PyTorch ({one_line(error)}).") from error
    return export_program(module, inputs, shapes)


def _planted(label: str, healthy: Exported | Failure, inputs: Mapping[str, Any], faults: list[Fault]) -> Target:
    if isinstance(healthy, Failure):
        if faults:
            raise InputError(f"No fault can be planted in {label}, which cannot be exported: {healthy}.")
        return Target(label, healthy, healthy, inputs)
    return Target(label, healthy, reduce(plant, faults, healthy), inputs)
