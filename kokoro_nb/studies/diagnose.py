"""What is diagnosed: Kokoro's decoder under chosen patches, or what a function of the user's own returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import checked
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import chosen_patches
from kokoro_nb.storage import read_arrays
from kokoro_nb.studies.decoder import decoder_program, with_constant_channels
from kokoro_nb.studies.diagnosed_program import own_module

NORM = "decoder.generator.noise_res.0.adain1.0.norm"  # behind the convolution whose channels hardly vary


@dataclass(frozen=True, eq=False)
class DiagnosedSubject:
    """A program, its inputs, and what is known of it before.

    Attributes
    ----------
    label : str
        What it is, as the start of a sentence.
    weights : str
        Label of its weights.
    program : Exported or Failure
        As it is exported, or how that failed.
    inputs : dict
        Name -> tensor.
    note : str
        What was made on purpose; empty where nothing was.
    known : str
        Module path of the operator that is known to be the first wrong one; empty where none is.
    sample_rate : int
        Of its output, in Hz; 0 where that is no audio.
    reference : pair or None
        What the program was rewritten from and inputs for that, where the function names it.
    """

    label: str
    weights: str
    program: Exported | Failure
    inputs: Mapping[str, Any]
    note: str = ""
    known: str = ""
    sample_rate: int = 0
    reference: tuple[Any, Mapping[str, Any]] | None = None


def diagnosed_subject(
    module: str = "",
    weights: str = "mini",
    patches: str | Sequence[str] | None = "all",
    inputs: str = "",
    text: str = "Hello world.",
    seed: int = 0,
    frames: int = 24,
    channels: int = 0,
) -> DiagnosedSubject:
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
    chosen = chosen_patches(patches)
    if module:
        named = () if isinstance(patches, str) and patches.startswith("all") else chosen
        target = own_module(module, [], named, Path(inputs) if inputs else None)
        label = f"The module of {module}"
        return DiagnosedSubject(label, "of that module", target.candidate, target.inputs, reference=target.reference)
    kokoro = load_model(weights, seed)
    case = capture(kokoro, text, seed=seed)
    label, model, note, known = kokoro.weights.label, kokoro.model, "", ""
    if channels:
        model, label = with_constant_channels(model, channels), f"{label}, {channels} channels nearly constant"
        note = f"Made wrong on purpose: {channels} channels of one convolution hardly vary beside a large mean."
        known = NORM if chosen == chosen_patches("all but two_pass_norm") else ""
    decoder = decoder_program(model, case, frames, patches=chosen)
    given = (
        checked({**decoder.inputs, **read_arrays(Path(inputs))}, decoder.program.inputs) if inputs else decoder.inputs
    )
    subject = f"Kokoro's decoder, {frames / 40:g} s of speech"
    return DiagnosedSubject(subject, label, decoder.program, given, note, known, SAMPLE_RATE)
