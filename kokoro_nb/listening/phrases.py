"""A fixed list of phrases, in every version that is to be compared: spoken, heard, and counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, absence
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError
from kokoro_nb.listening.transcript import Transcript, is_speech, normalise, transcribe
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.padding import PaddedDecoderStage, widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

PHRASES = Path(__file__).parents[2] / "data" / "phrases.txt"


def phrases(count: int) -> tuple[str, ...]:
    """Return the first `count` phrases of the list, which neither the small voice nor the small ear was taught.

    Raises
    ------
    InputError
        If there are not so many.
    """
    known = tuple(PHRASES.read_text(encoding="utf-8").splitlines())
    if not 1 <= count <= len(known):
        raise InputError(
            f"{count} phrases are asked for and {PHRASES.name} holds {len(known)}; ask for 1 to {len(known)}."
        )
    return known[:count]


@dataclass(frozen=True)
class Speaker:
    """What one runtime says of some utterances.

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
        Where the artefacts are kept; in the cache by default.
    """
    room = max(case.frames for case in cases)
    given = [widened(case.decoder_inputs(), room) | {"length": torch.tensor([case.frames])} for case in cases]
    with patched(model, EXPORT_PATCHES):
        exported = export_program(PaddedDecoderStage(model.decoder), given[0])
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
        made.append(valid(audio, case))
    return Speaker(name, tuple(made))


def valid(audio: np.ndarray, case: Case) -> np.ndarray:
    """Return what is said of the utterance, (600 * frames,) float32, of a buffer in which there is room for more."""
    return audio.reshape(-1)[: SAMPLES_PER_FRAME * case.frames].astype(np.float32)


def believed(transcript: Transcript | None) -> str:
    """Return what counts as heard, normalised: nothing where there is no transcript, or a doubted one."""
    return normalise(transcript.text) if transcript is not None and is_speech(transcript) else ""


def phrase_error_rate(texts: Sequence[str], heard: Sequence[Transcript | None]) -> float:
    """Return the word error rate over all `texts`: errors over the words of all of them.

    Parameters
    ----------
    texts : sequence of str
        What was spoken.
    heard : sequence of Transcript or None
        One for each text. A doubted one, or None, counts as if nothing had been heard: every word is an error.

    >>> phrase_error_rate(["two cats", "one dog"], [None, Transcript("one dog", -0.1, 0.0, 0.9)])
    0.5
    """
    import jiwer

    return float(jiwer.wer([normalise(text) for text in texts], [believed(transcript) for transcript in heard]))


def heard_in(model: Any, audio: Sequence[np.ndarray], sr: int, words: bool = False) -> list[Transcript | None]:
    """Return what `model` hears in each signal; None where one is not finite, and so is nothing to be listened to."""
    return [transcribe(model, y, sr, words) if np.isfinite(y).all() else None for y in audio]
