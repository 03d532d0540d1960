"""Word error rate in fewer bits: phrases decoded in each precision and transcribed by Whisper."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.precision_programs import (
    CALIBRATION,
    PRECISIONS,
    TOLERANT,
    PrecisionPrograms,
    require_precisions,
    tolerant_of,
)
from kokoro_nb.benchmarks.subjects import BASE, at_har, decoder_inputs
from kokoro_nb.delivery.decoded import valid
from kokoro_nb.listening.phrases import heard_in, phrase_error_rate, phrases
from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLE_RATE
from kokoro_nb.models.case import Case, capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.stages import FromHarStage
from kokoro_nb.models.static_buffers import widened

EAR = "mini"
COUNT = 50  # phrases; all that there are
ERROR_RATE, MORE, MEAN, WORST = "word error rate (%)", "points more", "mean (dB)", "worst phrase (dB)"


def measure(
    kokoro: Kokoro,
    precisions: Sequence[str] = PRECISIONS,
    count: int = COUNT,
    seed: int = 0,
    ear: str | Path = EAR,
    folder: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Decode the phrases of `data/phrases.txt` from `har` on in each precision, and transcribe them.

    One program for all of them, with room for the longest: each one's length is an input, see `FromHarStage`.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    precisions : sequence of str
        Of `precision_programs.PRECISIONS`.
    count : int
        How many phrases.
    seed : int
        Of the source's noise.
    ear : str or path
        See `recogniser.load_whisper`. The small one understands the small voice.
    folder : path, optional
        Where the artefact in float32 is saved.

    Returns
    -------
    list of dict
        Rows of a table, eager in float32 first, then in the order of `precisions`: word error rate, where a doubted
        transcript counts as nothing heard; by how many percent of the words more are wrong than in eager; and the
        log-spectral distance from eager, mean over the phrases and largest, dB.

    Raises
    ------
    InputError
        If a precision is unknown, there are not so many phrases, or the ear or ONNX Runtime cannot be used.
    """
    from tqdm.auto import tqdm

    require_precisions(precisions)
    texts, listener = phrases(count), load_whisper(ear)
    with quietly():
        cases = [capture(kokoro, text, seed=seed, g2p="espeak") for text in texts]
    room = max(case.frames for case in cases)
    padded = [_inputs(kokoro, case, room) for case in cases]
    tolerant, _ = (
        tolerant_of(kokoro, _calibration(kokoro, FRAMES_PER_SECOND, seed)) if TOLERANT in precisions else ((), ())
    )
    rows: list[dict[str, Any]] = []
    reference: list[np.ndarray] = []
    with TemporaryDirectory() as place:
        calibration = {**_calibration(kokoro, room, seed), "length": torch.tensor([room])}
        made = PrecisionPrograms(kokoro, FromHarStage, padded[0], calibration, tolerant, Path(place), folder)
        for name in tqdm(list(dict.fromkeys([BASE, *precisions])), desc="precisions", unit="program"):
            call, _ = made.call(name)
            audio = [valid(call(inputs), case) for case, inputs in zip(cases, padded, strict=True)]
            reference = reference or audio
            rate = 100 * phrase_error_rate(texts, heard_in(listener, audio, SAMPLE_RATE))
            apart = [log_spectral_distance(one, other) for one, other in zip(reference, audio, strict=True)]
            row = {"program": name, ERROR_RATE: rate, MORE: rate - (rows[0][ERROR_RATE] if rows else rate)}
            row |= {MEAN: float(np.mean(apart)), WORST: float(np.max(apart))}
            rows.append({**row, "phrases": count})
    return rows


def _calibration(kokoro: Kokoro, frames: int, seed: int) -> Arrays:
    return decoder_inputs(kokoro, frames, seed, CALIBRATION)


def _inputs(kokoro: Kokoro, case: Case, room: int) -> dict[str, torch.Tensor]:
    return {**widened(at_har(kokoro, case.decoder_inputs()), room), "length": torch.tensor([case.frames])}
