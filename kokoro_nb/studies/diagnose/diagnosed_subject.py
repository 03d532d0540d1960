"""What is diagnosed: Kokoro's decoder under chosen patches, or what a function of the user's own returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import checked
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches
from kokoro_nb.storage import read_arrays
from kokoro_nb.studies.decoder import decoder_program
from kokoro_nb.studies.diagnosed_program import own_module
from kokoro_nb.studies.tvm_nan import with_constant_channels

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
    program : Exported
        As it is exported.
    inputs : dict
        Name -> tensor.
    note : str
        What was made on purpose; empty where nothing was.
    known : str
        Module path of the operator that is known to be the first wrong one; empty where none is.
    missing : tuple of str
        Patches that an export takes and this one has not.
    patched : Exported or None
        The same with these patches, the cure that is tried; None where none is missing.
    sample_rate : int
        Of its output, in Hz; 0 where that is no audio.
    reference : pair or None
        What the program was rewritten from and inputs for that, where the function names it.
    """

    label: str
    weights: str
    program: Exported
    inputs: Mapping[str, Any]
    note: str = ""
    known: str = ""
    missing: tuple[str, ...] = ()
    patched: Exported | None = None
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
    label = kokoro.weights.label
    model = with_constant_channels(kokoro.model, channels) if channels else kokoro.model
    missing = tuple(name for name in EXPORT_PATCHES if name not in chosen)
    decoder = decoder_program(model, case, frames, patches=chosen)
    every = (*chosen, *missing)
    healed = decoder_program(model, case, frames, patches=every).program if missing else None
    note, known = "", ""
    if channels:
        note = f"Made wrong on purpose: {channels} channels of one convolution hardly vary beside a large mean."
        known = NORM if missing == ("two_pass_norm",) else ""
    subject = f"Kokoro's decoder, {frames / 40:g} s of speech"
    fitting: Mapping[str, Any] = decoder.inputs
    if inputs:
        fitting = checked({**fitting, **read_arrays(Path(inputs))}, decoder.program.inputs)
    weights_label = f"{label}, {channels} channels nearly constant" if channels else label
    return DiagnosedSubject(
        *(subject, weights_label, decoder.program, fitting, note, known, missing, healed), sample_rate=SAMPLE_RATE
    )
