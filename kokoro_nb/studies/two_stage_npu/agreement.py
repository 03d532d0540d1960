"""Two delivered stages against the model that they were made from, text by text and voice by voice."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.listening.spectrum import SpectralAgreement, is_judged, log_spectral_distance
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.case import Case, decode
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.statistics import compare

INPUTS = ("asr", "f0", "n")  # of the decoder, that are predicted
# of the peak: twice the most that float32 did to the package's own modules, 1e-5 (60 texts at full size)
INPUTS_LIMIT = 2e-5


@dataclass(frozen=True)
class TextAgreement:
    """One text in one voice.

    Attributes
    ----------
    text, voice : str
    frames : int
        How long the original model makes it.
    durations : bool
        Whether the duration of every token is the original's.
    asr, f0, n : float
        Largest error of what the decoder is given, of the peak, against the original in float64: two runtimes that
        round differently are further from each other than either is from the truth. NaN where the durations differ.
    rounding : float
        The largest of the same three of the original itself, in float32.
    distance : float
        Log-spectral distance of the audio to the original's on the same noise, dB.
    floor : float
        The same of the original itself, after its pitch was moved up or down by as much as that of the delivery
        differs at most, and by no more than `INPUTS_LIMIT`: atan2 in the source makes as much of any rounding of that
        size, and a fault must not raise its own limit.
    """

    text: str
    voice: str
    frames: int
    durations: bool
    asr: float
    f0: float
    n: float
    rounding: float
    distance: float
    floor: float

    @property
    def inputs(self) -> float:
        """The largest of the three errors of the decoder's inputs."""
        return float(np.max([self.asr, self.f0, self.n]))

    @property
    def distance_limit(self) -> float:
        """What `distance` may be, dB: see `SpectralAgreement`."""
        return SpectralAgreement(self.distance, self.floor).limit

    @property
    def determined(self) -> bool:
        """Whether the spectrum of the audio can be held to the limit, see `is_judged`.

        Where it cannot, only the decoder's inputs, and what it makes from `har` on, say whether the delivery is right.
        """
        return is_judged(self.floor, self.distance_limit)  # of other durations nothing is known, and that is wrong


@dataclass(frozen=True)
class Agreement:
    """Every text in every voice, by the delivery and by the model."""

    texts: tuple[TextAgreement, ...]

    @property
    def worst_inputs(self) -> TextAgreement:
        """The text whose decoder inputs are furthest off."""
        return self.texts[np.argmax([one.inputs for one in self.texts])]

    @property
    def inputs_limit(self) -> float:
        """What the inputs may be off by, of the peak: twice the most that float32 does to them with these weights.

        At least `INPUTS_LIMIT`, which is that of more texts.
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


def against_model(speaker: TwoStages, kokoro: Kokoro, cases: Sequence[Case]) -> Agreement:
    """Have the delivery speak what the model spoke, in the same voice and on the same noise.

    Parameters
    ----------
    kokoro : Kokoro
        What it was made from; without patches.
    cases : sequence of Case
        Each text has room in one piece, and the phonemes that the delivery makes of it; the voices are the folder's.

    Raises
    ------
    InputError
        If a voice or a text has no room.
    """
    from tqdm.auto import tqdm

    with patched(kokoro.model, EXPORT_PATCHES):  # one that has computed cannot be copied before its weights are folded
        precise = deepcopy(kokoro.model).double()
    return Agreement(tuple(_compared(speaker, kokoro, precise, case) for case in tqdm(cases, "texts", unit="text")))


def _compared(speaker: TwoStages, kokoro: Kokoro, precise: KModel, case: Case) -> TextAgreement:
    made = speaker.predict(speaker.symbols(case.text), speaker.table(case.voice))
    if not np.array_equal(made["durations"], case.tensors["durations"].numpy()):
        return TextAgreement(case.text, case.voice, case.frames, False, *6 * (float("nan"),))
    given = speaker.decoder_inputs(made, lambda frames: case.tensors["harmonic_noise"].numpy())
    exact = _exact(precise, case)
    errors = {name: _error(exact[name], given[name]) for name in INPUTS}
    rounding = float(np.max([_error(exact[name], case.tensors[name].numpy()) for name in INPUTS]))
    original = decode(kokoro.model, case, EXPORT_PATCHES)
    moved = _moved(kokoro, case, float(np.minimum(_error(case.tensors["f0"], given["f0"]), INPUTS_LIMIT)))
    audio = speaker.sound(given)[: original.size]
    distance, floor = (log_spectral_distance(original, other) for other in (audio, moved))
    return TextAgreement(
        case.text, case.voice, case.frames, True, **errors, rounding=rounding, distance=distance, floor=floor
    )


def _exact(precise: KModel, case: Case) -> dict[str, torch.Tensor]:
    """Return what the decoder is given by the package's own modules in float64, for durations as they are in float32.

    The lines of `KModel.forward_with_tokens` up to the decoder, and none of this package's: a rewrite that is wrong in
    PyTorch already would else be compared with itself.
    """
    ids, style, lasting = case.tensors["ids"], case.tensors["ref_s"][:, STYLE:].double(), case.tensors["durations"]
    count, nothing = torch.tensor([ids.shape[1]]), torch.zeros_like(ids, dtype=torch.bool)
    predictor = precise.predictor
    with torch.no_grad():
        encoded = precise.bert_encoder(precise.bert(ids, attention_mask=(~nothing).int())).transpose(-1, -2)
        d = predictor.text_encoder(encoded, style, count, nothing)
        f0, n = predictor.F0Ntrain(d.transpose(-1, -2).repeat_interleave(lasting, 2), style)
        asr = precise.text_encoder(ids, count, nothing).repeat_interleave(lasting, 2)
    return dict(zip(INPUTS, (asr, f0, n), strict=True))


def _error(expected: torch.Tensor, found: np.ndarray) -> float:
    return compare(expected.numpy(), found[..., : expected.shape[-1]]).of_peak


def _moved(kokoro: Kokoro, case: Case, error: float) -> np.ndarray:
    """Decode with every pitch `error` of the peak higher or lower."""
    f0 = case.tensors["f0"]
    sign = torch.randn(f0.shape, generator=torch.Generator().manual_seed(case.seed)).sign()
    moved = {**case.tensors, "f0": f0 + error * f0.abs().max() * sign}
    return decode(kokoro.model, replace(case, tensors=moved), EXPORT_PATCHES)
