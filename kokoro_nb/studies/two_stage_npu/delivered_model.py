"""A delivery of two stages beside the model that it was made from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.delivery.contract import Contract
from kokoro_nb.delivery.export import FRAME_RATE, SECONDS, Delivery, PartNotExportedError, delivered
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.phonemes import encode, voice_language
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.models.voices import load_voice, own_voices, style
from kokoro_nb.studies.two_stage_npu.agreement import INPUTS_LIMIT, TextAgreement, against_model
from kokoro_nb.studies.two_stage_npu.checklist import Check, checklist

COLUMNS = ("text", "voice", "frames", "durations", "asr", "f0", "n", "rounding", "distance", "floor")


@dataclass(frozen=True, eq=False)
class Agreement:
    """Every text in every voice, by the delivery and by the model.

    Attributes
    ----------
    texts : tuple of TextAgreement
        See `agreement`.
    audio : numpy.ndarray, shape (samples,), float32
        The first text in the first voice, by the delivery: 24 kHz, full scale 1.
    other_draw : float
        Log-spectral distance of that to the same on another draw of the noise, dB.
    """

    texts: tuple[TextAgreement, ...]
    audio: np.ndarray
    other_draw: float

    @property
    def same_durations(self) -> int:
        """How many texts have the model's duration for every token."""
        return sum(one.durations for one in self.texts)

    @property
    def worst_inputs(self) -> TextAgreement:
        """The text whose decoder inputs are furthest off."""
        return self.texts[np.argmax([one.inputs for one in self.texts])]

    @property
    def inputs_limit(self) -> float:
        """What the inputs may be off by, of the peak: twice the most that float32 does to them with these weights.

        At least `agreement.INPUTS_LIMIT`, which is that of more texts.
        """
        return float(np.max([INPUTS_LIMIT, *(2 * one.rounding for one in self.texts)]))

    @property
    def worst_audio(self) -> TextAgreement | None:
        """The text whose audio is furthest off, measured by what is allowed; None if rounding determines none."""
        texts = [one for one in self.texts if one.determined]
        return texts[np.argmax([one.distance / one.distance_limit for one in texts])] if texts else None

    @property
    def undetermined(self) -> str:
        """Which texts' spectra say nothing, and why, in a sentence; '' if all of them do."""
        texts = [one for one in self.texts if not one.determined]
        floors = ", ".join(f"'{one.text}' by {one.voice or 'the first voice'} {one.floor:.2f} dB" for one in texts)
        return f"rounding alone moves the audio nearly as far as noise does: {floors}" if texts else ""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each text in each voice."""
        return [{name: getattr(one, name) for name in COLUMNS} for one in self.texts]


@dataclass(frozen=True, eq=False)
class DeliveredModel:
    """A delivered folder, the model that it was made from, and the seed of the noise."""

    kokoro: Kokoro
    request: Delivery
    folder: Path
    seed: int

    @cached_property
    def speaker(self) -> TwoStages:
        """The programs, ready to speak."""
        return TwoStages(self.folder)

    @property
    def contract(self) -> Contract:
        """What the programs take and give."""
        return self.speaker.contract

    @property
    def files(self) -> dict[str, Path]:
        """The ONNX files of the folder, by the name of the part."""
        parts = self.contract.parts.items()
        return {name: self.folder / part.file for name, part in parts if part.file.endswith(".onnx")}

    def contract_rows(self) -> list[dict[str, str]]:
        """Return a row for each program."""
        return [
            {"part": name, "backend": part.backend, "file": Path(part.file).name}
            | {"inputs": ", ".join(map(str, part.inputs)), "outputs": ", ".join(map(str, part.outputs))}
            for name, part in self.contract.parts.items()
        ]

    def against_model(self, texts: Sequence[str]) -> Agreement:
        """Speak each text in each voice by the programs and by the unpatched model, on the same noise."""
        voices = self.request.voices
        compared = tuple(against_model(self.speaker, self.kokoro, texts, voices, self.seed))
        first, other = (self.speaker.speak(texts[0], voices[0], seed=seed) for seed in (self.seed, self.seed + 1))
        return Agreement(compared, first, log_spectral_distance(first, other))

    def checklist(self, text: str) -> tuple[Check, ...]:
        """Check the programs alone, without the model: see `checklist.checklist`."""
        return checklist(self.speaker, text, self.request.voices[0], self.seed)


def deliver(
    kokoro: Kokoro,
    backend: str,
    host: str,
    voices: Sequence[str],
    tokens: int,
    bucket_seconds: Sequence[float],
    seed: int = 0,
    texts: Sequence[str] = (),
) -> tuple[DeliveredModel | None, Failure | None]:
    """Export both stages into a folder of the cache, or take the one that is there: see `delivery.export.Delivery`.

    Without `voices` it has two of the weights in use and their blend; without `bucket_seconds` one bucket, of 3 s or
    more, in which each of `texts` has room. Beside the model stands None, or, where a program cannot be exported, the
    record of that beside no model.
    """
    voices = tuple(voices or own_voices(kokoro))
    seconds = tuple(bucket_seconds) or (float(np.max([SECONDS[0], longest(kokoro, texts, voices)])),)
    request = Delivery(backend, host, voices=voices, tokens=tokens, seconds=seconds)
    try:
        return DeliveredModel(kokoro, request, delivered(kokoro, request), seed), None
    except PartNotExportedError as error:
        return None, error.failure


def longest(kokoro: Kokoro, texts: Sequence[str], voices: Sequence[str]) -> float:
    """Return the whole number of seconds in which these weights say each of `texts` in each voice."""
    stage, speed = DurationStage(kokoro.model), torch.ones(1)
    lasting = []
    for voice in voices:
        table, language = load_voice(kokoro, voice), kokoro.language or voice_language(voice)
        for text in texts:
            phonemes = encode(kokoro.model.vocab, text, "espeak", language)
            count = torch.tensor([phonemes.ids.shape[1]])
            with torch.no_grad():
                durations, *_ = stage(phonemes.ids, count, style(table, phonemes.symbols), speed)
            lasting.append(int(durations.sum()))
    return float(np.ceil(np.max(lasting) / FRAME_RATE))
