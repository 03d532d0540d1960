"""How the small voice articulates, against espeak's own speech of the same sentences: formants, confusions, spectra.

The judge owes nothing to any training of ours: formants come from linear prediction, phonemes are told apart by a
linear discriminant (Fisher, 1936) of mel cepstra that is fitted to espeak's speech alone.
"""

from kokoro_nb.studies.voice.confusion import Confusion, Judge, fit_judge, misplaced
from kokoro_nb.studies.voice.recordings import (
    Recording,
    by_espeak,
    by_model,
    fitting_sentences,
    stranger,
    voice_in,
)
from kokoro_nb.studies.voice.spectra import (
    GIVEN,
    OTHER_STYLE,
    OTHER_TEXT,
    OTHER_VOICE,
    OWN,
    Distance,
    spectral_distances,
    with_prosody_of,
)
from kokoro_nb.studies.voice.vowel_formants import DIPHTHONGS, MONOPHTHONGS, Vowel, by_kind, deviation, vowels

__all__ = [
    "DIPHTHONGS",
    "GIVEN",
    "MONOPHTHONGS",
    "OTHER_STYLE",
    "OTHER_TEXT",
    "OTHER_VOICE",
    "OWN",
    "Confusion",
    "Distance",
    "Judge",
    "Recording",
    "Vowel",
    "by_espeak",
    "by_kind",
    "by_model",
    "deviation",
    "fit_judge",
    "fitting_sentences",
    "misplaced",
    "spectral_distances",
    "stranger",
    "voice_in",
    "vowels",
    "with_prosody_of",
]
