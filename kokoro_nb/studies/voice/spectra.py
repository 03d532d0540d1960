"""How far the model's spectra are from espeak's, and how far those of controls."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import mel_cepstral_distance, multi_resolution_stft_distance
from kokoro_nb.models import voices
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.studies.voice.recordings import Recording, voice_in
from kokoro_nb.training.corpus import VOICES, Utterance
from kokoro_nb.training.samples import Voice, taught


@dataclass(frozen=True)
class Distance:
    """How far apart two voices' spectra are, mean over sentences.

    Attributes
    ----------
    voice : str
        The reference's.
    candidate : str
        What is held against it.
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


def spectral_distances(
    kokoro: Kokoro, said: Sequence[Utterance], spoken: Sequence[Recording], seed: int = 0
) -> list[Distance]:
    """Hold the model's spectra, and those of controls, against espeak's, for each voice.

    Parameters
    ----------
    kokoro : Kokoro
    said : sequence of Utterance
        espeak's, each sentence in every voice of `VOICES` one after the other, two sentences at least.
    spoken : sequence of Recording
        The model's of the same, see `by_model`.
    seed : int
        Seed of the source's noise.

    Raises
    ------
    InputError
        If there are fewer.
    """
    names, found = list(VOICES), defaultdict(list)
    if len(said) < 2 * len(names):
        raise InputError(f"{len(said)} recordings hold no two sentences in {len(names)} voices; give two at least.")
    for at, (reference, own) in enumerate(zip(said, spoken, strict=True)):
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
    for (voice, name), pairs in sorted(found.items(), key=lambda item: names.index(item[0][0])):
        cepstral = float(np.mean([pair[0] for pair in pairs]))
        stfts = [pair[1] for pair in pairs if pair[1] is not None]
        rows.append(Distance(voice, name, cepstral, float(np.mean(stfts)) if stfts else None))
    return rows


def with_prosody_of(kokoro: Kokoro, said: Utterance, voice: str, seed: int = 0) -> NDArray[np.float32]:
    """Return the model's audio, shape (samples,), of a sentence with espeak's durations, F0 and energy."""
    table = voices.load_voice(kokoro, voice_in(kokoro, voice))
    style = table[len(said.ids) - 3]  # the two pad tokens do not count, and row 0 is for one phoneme
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return taught(Voice(kokoro.model, style.expand(len(VOICES), -1)), said)[0].numpy()
