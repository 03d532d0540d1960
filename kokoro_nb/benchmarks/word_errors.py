"""What a listener makes of numbers of fewer bits: phrases decoded in each precision, transcribed, and counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.decoders import BASE, at_har, decoder_inputs
from kokoro_nb.benchmarks.reduction import BORNE, CALIBRATION, PRECISIONS, Reduction, borne_by, require_known
from kokoro_nb.delivery.decoded import valid
from kokoro_nb.listening.phrases import heard_in, phrase_error_rate, phrases
from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLE_RATE
from kokoro_nb.models.case import Case, capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.padding import PaddedFromHarStage, widened

EAR = "mini"
COUNT = 50  # phrases; all that there are


@dataclass(frozen=True)
class Understood:
    """The phrases in one precision.

    Attributes
    ----------
    program : str
        `decoders.BASE`, or of `reduction.PRECISIONS`.
    error_rate : float
        Of words; a doubted transcript counts as nothing heard.
    points : float
        By how many percent of the words more are wrong than in eager in float32; 0 where as many are.
    distance : float
        Log-spectral distance from eager in float32, dB: mean over the phrases.
    furthest : float
        That of the phrase that is furthest from it.
    phrases : int
    """

    program: str
    error_rate: float
    points: float
    distance: float
    furthest: float
    phrases: int

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        told = {"program": self.program, "word error rate (%)": 100 * self.error_rate, "points more": self.points}
        return {**told, "mean (dB)": self.distance, "worst phrase (dB)": self.furthest, "phrases": self.phrases}


def measure(
    kokoro: Kokoro,
    precisions: Sequence[str] = PRECISIONS,
    count: int = COUNT,
    seed: int = 0,
    ear: str | Path = EAR,
    folder: str | Path | None = None,
) -> tuple[Understood, ...]:
    """Decode the phrases of `data/phrases.txt` from `har` on in each precision, and have them transcribed.

    One program for all of them, with room for the longest: each one's length is an input, see `PaddedFromHarStage`.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    precisions : sequence of str
        Of `reduction.PRECISIONS`.
    count : int
        How many phrases.
    seed : int
        Of the source's noise.
    ear : str or path
        See `recogniser.load_whisper`. The small one understands the small voice.
    folder : path, optional
        Where the artefact in float32 is kept.

    Returns
    -------
    tuple of Understood
        Eager in float32 first, then in the order of `precisions`.

    Raises
    ------
    InputError
        If a precision is unknown, there are not so many phrases, or the ear or ONNX Runtime cannot be used.
    """
    from tqdm.auto import tqdm

    require_known(precisions)
    texts, listener = phrases(count), load_whisper(ear)
    with quietly():
        cases = [capture(kokoro, text, seed=seed, g2p="espeak") for text in texts]
    room = max(case.frames for case in cases)
    given = [_inputs(kokoro, case, room) for case in cases]
    bearers, _ = borne_by(kokoro, _calibration(kokoro, FRAMES_PER_SECOND, seed)) if BORNE in precisions else ((), ())
    rows: list[Understood] = []
    reference: list[np.ndarray] = []
    with TemporaryDirectory() as place:
        calibration = {**_calibration(kokoro, room, seed), "length": torch.tensor([room])}
        reduction = Reduction(kokoro, PaddedFromHarStage, given[0], calibration, bearers, Path(place), folder)
        for name in tqdm(list(dict.fromkeys([BASE, *precisions])), desc="precisions", unit="program"):
            call, _ = reduction.call(name)
            audio = [valid(call(inputs), case) for case, inputs in zip(cases, given, strict=True)]
            reference = reference or audio
            rate = phrase_error_rate(texts, heard_in(listener, audio, SAMPLE_RATE))
            apart = [log_spectral_distance(one, other) for one, other in zip(reference, audio, strict=True)]
            more = 100 * (rate - (rows[0].error_rate if rows else rate))
            rows.append(Understood(name, rate, more, float(np.mean(apart)), float(np.max(apart)), count))
    return tuple(rows)


def _calibration(kokoro: Kokoro, frames: int, seed: int) -> Arrays:
    return decoder_inputs(kokoro, frames, seed, CALIBRATION)


def _inputs(kokoro: Kokoro, case: Case, room: int) -> dict[str, torch.Tensor]:
    return {**widened(at_har(kokoro, case.decoder_inputs()), room), "length": torch.tensor([case.frames])}
