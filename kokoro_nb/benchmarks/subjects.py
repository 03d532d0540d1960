"""What is timed: the decoder from `har` with its inputs, eager and exported, and the model in PyTorch as it speaks."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch import Tensor, cat

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Failure, absence, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError
from kokoro_nb.models import speech, stages, voices
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLES_PER_FRAME
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

TEXT = "Hello world, this is a test of the exports."
BASE = "eager"
DECODER_BACKENDS = (
    *("onnxruntime", "executorch-xnnpack", "executorch-portable", "aot-inductor"),
    *("tvm-scheduled", "tvm"),  # TVM with loops of ours, for speed, and as it is
)
ROUNDS = 7
Made = TypeVar("Made")


def frames_of(length: float) -> int:
    """Return the frames of so many seconds of audio.

    Raises
    ------
    InputError
        If it is less than two of them, or no number.
    """
    if not 2 / FRAMES_PER_SECOND <= length < math.inf:
        raise InputError(f"{length} s of audio cannot be timed; give {2 / FRAMES_PER_SECOND} s or more.")
    return round(length * FRAMES_PER_SECOND)


def decoder_inputs(kokoro: Kokoro, frames: int, seed: int = 0, text: str = TEXT) -> dict[str, Tensor]:
    """Return the inputs of the decoder from `har`: so many frames of a sentence, repeated where it is shorter."""
    return at_har(kokoro, whole_inputs(kokoro, frames, seed, text))


def at_har(kokoro: Kokoro, inputs: Arrays) -> dict[str, Tensor]:
    """Return the inputs of the decoder from `har` where the decoder with its source has `inputs`."""
    with patched(kokoro.model, EXPORT_PATCHES):
        return stages.from_har_inputs(kokoro.model.decoder, inputs)


def whole_inputs(kokoro: Kokoro, frames: int, seed: int = 0, text: str = TEXT) -> dict[str, Tensor]:
    """Return the inputs of the decoder with its source, see `decoder_inputs`."""
    with quietly():
        case = capture(kokoro, text, seed=seed, g2p="espeak")
    once = case.decoder_inputs(min(frames, case.frames))
    rates = {"asr": (2, 1), "f0": (1, 2), "n": (1, 2), "harmonic_noise": (1, SAMPLES_PER_FRAME)}  # axis, per frame
    inputs = {name: _repeated(once[name], axis, frames * rate) for name, (axis, rate) in rates.items()}
    return {**inputs, "s": once["s"]}


def exported_decoder(
    kokoro: Kokoro, inputs: Arrays, stage: type[stages.FromHarStage] = stages.FromHarStage
) -> Exported:
    """Return the decoder from `har`, or its padded version, patched for export.

    Raises
    ------
    InputError
        If it cannot be exported.
    """
    with patched(kokoro.model, EXPORT_PATCHES):
        exported = export_program(stage(kokoro.model.decoder), inputs)
    if isinstance(exported, Failure):
        raise InputError(f"The decoder cannot be exported: {exported}")
    return exported


def eager_artifact(module: Any, inputs: Arrays) -> Artifact:
    """Return a module or an exported program as eager PyTorch runs it."""
    made = backend("eager").export(module, inputs)
    if isinstance(made, Failure):
        raise InputError(f"The decoder cannot be timed: {made}")
    return made


def export_to(name: str, exported: Any, inputs: Arrays, folder: str | Path | None) -> Artifact | str:
    """Return what a backend exported, or why there is nothing."""
    runtime = backend(name)
    absent = absence(runtime)
    if absent:
        return absent
    made = exported if isinstance(exported, Failure) else runtime.export(exported, inputs, folder)
    return str(made) if isinstance(made, Failure) else made


def made_of(
    backends: Sequence[str], make: Callable[[str], Made | str], slow: Mapping[str, float], length: float, limit: float
) -> tuple[dict[str, Made], dict[str, str]]:
    """Return what `make` makes for each backend, and for each with nothing to time the reason.

    A backend whose single call would take longer than `limit` seconds, by its seconds of computing for each second of
    audio in `slow`, is left out.
    """
    made, skipped = {}, {}
    for name in backends:
        expected = slow.get(name, 0.0) * length
        late = f"One call would take some {expected:.0f} s; raise the limit to wait for it."
        one = late if expected > limit else make(name)
        if isinstance(one, str):
            skipped[name] = one
        else:
            made[name] = one
    return made, skipped


def eager_speaker(kokoro: Kokoro) -> Callable[[str], np.ndarray]:
    """Return a function that speaks a text with the model in PyTorch: text -> (samples,) float32, 24 kHz."""
    table = voices.load_voice(kokoro)

    def speak(text: str) -> np.ndarray:
        phonemes = speech.encode(kokoro.model.vocab, text, "espeak")
        audio, _ = kokoro.model.forward_with_tokens(phonemes.ids, voices.style(table, phonemes.symbols), 1.0)
        return audio.numpy()

    return speak


def _repeated(tensor: Tensor, axis: int, size: int) -> Tensor:
    times = math.ceil(size / tensor.shape[axis])
    return cat([tensor] * times, axis).narrow(axis, 0, size).contiguous()
