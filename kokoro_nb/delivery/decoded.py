"""Utterances decoded by one padded export on each runtime, in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, absence
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.stages import DecoderStage
from kokoro_nb.models.static_buffers import widened


@dataclass(frozen=True)
class Speaker:
    """Some utterances as one runtime decodes them.

    Attributes
    ----------
    backend : str
        Its name.
    audio : tuple of numpy.ndarray, each of shape (600 * frames,), float32
        24 kHz, full scale 1; empty where the runtime failed.
    reason : str
        How it failed.
    """

    backend: str
    audio: tuple[np.ndarray, ...]
    reason: str = ""


def speak_all(
    model: KModel, cases: Sequence[Case], names: Sequence[str], folder: str | Path | None = None
) -> tuple[Speaker, ...]:
    """Export the decoder once for each runtime, with room for the longest utterance, and decode them all with it.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; it is exported with all of those that an export has.
    cases : sequence of Case
        The utterances, with their noise.
    names : sequence of str
        Keys of `BACKENDS`.
    folder : path, optional
        Where the artefacts are saved; in the cache by default.
    """
    room = max(case.frames for case in cases)
    given = [widened(case.decoder_inputs(), room) | {"length": torch.tensor([case.frames])} for case in cases]
    with patched(model, EXPORT_PATCHES):
        exported = export_program(DecoderStage(model.decoder), given[0])
    return tuple(_speak(name, exported, cases, given, folder) for name in names)


def _speak(
    name: str, exported: Exported | Failure, cases: Sequence[Case], given: Sequence[Arrays], folder: str | Path | None
) -> Speaker:
    runtime = backend(name)
    absent = absence(runtime)
    artifact = absent or runtime.export(exported, given[0], folder)
    if isinstance(artifact, str | Failure):
        return Speaker(name, (), str(artifact))
    program, made = runtime.load(artifact), []
    for case, inputs in zip(cases, given, strict=True):
        (audio,) = program.run(inputs).values()
        made.append(audio.reshape(-1)[: SAMPLES_PER_FRAME * case.frames].astype(np.float32))
    return Speaker(name, tuple(made))
