"""How far the model's spectra are from espeak's, and how far those of controls."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import mel_cepstral_distance, multi_resolution_stft_distance
from kokoro_nb.models import voices
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.studies.voice.recordings import SentencePairs, voice_in
from kokoro_nb.training.corpus import VOICES, AlignedSentence
from kokoro_nb.training.samples import Voice, taught


@dataclass(frozen=True)
class SpectralDistance:
    """How far apart two voices' spectra are, mean over sentences.

    Attributes
    ----------
    voice : str
        The reference's.
    candidate : str
        What is compared with it.
    mel_cepstral : float
        See `mel_cepstral_distance`, in dB, along the best time alignment.
    stft : float or None
        See `StftDistance.total`, sample against sample; None where the two have no common time.
    """

    voice: str
    candidate: str
    mel_cepstral: float
    stft: float | None


OWN, GIVEN = "model, own durations", "model, espeak's durations, F0 and energy"
OTHER_STYLE = "control: the same in the other voice's style"
OTHER_VOICE, OTHER_TEXT = "control: espeak's other voice", "control: espeak's next sentence"


@dataclass(frozen=True)
class SpectralDistances:
    """The distances of the model and of the controls from espeak's speech, a row for each voice and candidate."""

    rows: list[SpectralDistance]

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rows, with units."""
        return [
            {"voice": d.voice, "against espeak": d.candidate, "mel cepstral (dB)": d.mel_cepstral, "STFT": d.stft}
            for d in self.rows
        ]

    def of_nearest_control(self, voice: str) -> float:
        """Return the model's mel-cepstral distance as a share of the nearest control's."""
        distance = {d.candidate: d.mel_cepstral for d in self.rows if d.voice == voice}
        return distance[OWN] / float(np.min([each for name, each in distance.items() if name.startswith("control")]))

    def of_other_style(self, voice: str) -> float:
        """Return the model's STFT distance in its own style as a share of that in the other voice's."""
        distance = {d.candidate: d.stft for d in self.rows if d.voice == voice}
        own, other = distance[GIVEN], distance[OTHER_STYLE]
        return own / other if own is not None and other is not None else float("nan")


def spectral_distances(kokoro: Kokoro, pairs: SentencePairs, seed: int = 0) -> SpectralDistances:
    """Compare the model's spectra, and those of controls, with espeak's, for each voice.

    Parameters
    ----------
    kokoro : Kokoro
    pairs : SentencePairs
        Two sentences at least.
    seed : int
        Seed of the source's noise.

    Raises
    ------
    InputError
        If there are fewer.
    """
    said, names, found = pairs.utterances, list(VOICES), defaultdict(list)
    if len(said) < 2 * len(names):
        raise InputError(f"{len(said)} recordings hold no two sentences in {len(names)} voices; give two at least.")
    for at, (reference, own) in enumerate(zip(said, pairs.model, strict=True)):
        voice, sentence = names[reference.voice], at - reference.voice
        other = said[sentence + (reference.voice + 1) % len(names)]
        candidates = {
            OWN: own.audio,
            GIVEN: with_prosody_of(kokoro, reference, voice, seed),
            OTHER_STYLE: with_prosody_of(kokoro, reference, names[other.voice], seed),
            OTHER_VOICE: other.audio,
            OTHER_TEXT: said[(at + len(names)) % len(said)].audio,
        }
        for name, audio in candidates.items():
            aligned = name in (GIVEN, OTHER_STYLE)
            stft = multi_resolution_stft_distance(reference.audio, audio).total if aligned else None
            found[voice, name].append((mel_cepstral_distance(reference.audio, audio, SAMPLE_RATE), stft))
    rows = []
    for (voice, name), values in sorted(found.items(), key=lambda item: names.index(item[0][0])):
        cepstral = float(np.mean([value[0] for value in values]))
        stfts = [value[1] for value in values if value[1] is not None]
        rows.append(SpectralDistance(voice, name, cepstral, float(np.mean(stfts)) if stfts else None))
    return SpectralDistances(rows)


def with_prosody_of(kokoro: Kokoro, said: AlignedSentence, voice: str, seed: int = 0) -> NDArray[np.float32]:
    """Return the model's audio, shape (samples,), of a sentence with espeak's durations, F0 and energy."""
    table = voices.load_voice(kokoro, voice_in(kokoro, voice))
    style = table[len(said.ids) - 3]  # the two pad tokens do not count, and row 0 is for one phoneme
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return taught(Voice(kokoro.model, style.expand(len(VOICES), -1)), said)[0].numpy()
