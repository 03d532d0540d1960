"""F1 and F2 of every vowel, in espeak's speech and in the model's."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening.formants import Floats, formant_tracks, median_of_columns
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.studies.voice.recordings import Recording, SentencePairs, misplaced
from kokoro_nb.training.corpus import VOICES

MONOPHTHONGS = frozenset("iɪɛæɑɔʊuʌɜɚəɐᵻ")
DIPHTHONGS = frozenset("AIOQWY")
CEILINGS = {"em_espeak": 5000.0, "ef_espeak": 5500.0}  # Hz: five formants of a man, of a woman


def by_kind(phoneme: str) -> tuple[bool, str]:
    """Return the place of a phoneme in a table: vowels first."""
    return phoneme[0] not in MONOPHTHONGS | DIPHTHONGS, phoneme


@dataclass(frozen=True)
class Vowel:
    """The formants of one vowel in one voice, as espeak and as the model say it; NaN where no token has them in both.

    Attributes
    ----------
    voice, vowel : str
    tokens : int
        How often the sentences have it.
    reference, model : numpy.ndarray, shape (2,), float64, Hz
        F1 and F2: median, over tokens that have the formant in both, of the median over each one's middle half.
    found : numpy.ndarray, shape (2,), int64
        So many tokens have it in both, F1 and F2.
    """

    voice: str
    vowel: str
    tokens: int
    reference: Floats
    model: Floats
    found: NDArray[np.int64]

    @property
    def percent(self) -> Floats:
        """The model's deviation, shape (2,), in percent of the reference."""
        return 100 * (self.model / self.reference - 1)


def vowels(pairs: Iterable[tuple[Recording, Recording]]) -> list[Vowel]:
    """Compare F1 and F2 of every vowel in pairs of recordings, the reference first.

    Diphthongs are left out: their formants move through the middle, and a median is of no place.

    Raises
    ------
    InputError
        If the two of a pair do not have the same phonemes.
    """
    tokens: dict[tuple[str, str], list[Floats]] = defaultdict(list)
    for reference, model in pairs:
        if reference.symbols != model.symbols:
            raise InputError(f"{reference.symbols!r} and {model.symbols!r} cannot be compared vowel by vowel.")
        for (vowel, wanted), (_, made) in zip(_formants(reference), _formants(model), strict=True):
            tokens[reference.voice, vowel].append(np.stack([wanted, made]))
    found = []
    for (voice, vowel), values in sorted(tokens.items()):
        stack = np.stack(values)  # (tokens, 2 recordings, 2 formants)
        both = np.isfinite(stack).all(axis=1)
        first, second = (median_of_columns(np.where(both, stack[:, side], np.nan)) for side in (0, 1))
        found.append(Vowel(voice, vowel, len(values), first, second, both.sum(axis=0)))
    return found


def deviation(compared: Iterable[Vowel]) -> Floats:
    """Return the mean over vowels of the size of the deviation, F1 and F2, shape (2,), in percent.

    A vowel without the formant in any token does not count; without any vowel it is NaN.
    """
    percent = np.array([np.abs(vowel.percent) for vowel in compared]).reshape(-1, 2)
    columns = (column[~np.isnan(column)] for column in percent.T)
    return np.array([column.mean() if len(column) else np.nan for column in columns])


@dataclass(frozen=True)
class VowelFormants:
    """The formants of every vowel.

    Attributes
    ----------
    vowels, control : list of Vowel
        Of the model's speech, and of its audio at the wrong places.
    """

    vowels: list[Vowel]
    control: list[Vowel]

    @property
    def found(self) -> float:
        """Share of the formants that are found in both, F1 and F2 of all tokens."""
        return float(sum(v.found.sum() for v in self.vowels) / sum(2 * v.tokens for v in self.vowels))

    @property
    def deviations(self) -> dict[str, Floats]:
        """Voice -> mean size of the deviation of F1 and F2, shape (2,), in percent."""
        return {voice: deviation([v for v in self.vowels if v.voice == voice]) for voice in VOICES}

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row for each vowel and voice."""
        rows = []
        for v in self.vowels:
            row: dict[str, Any] = {"voice": v.voice, "vowel": v.vowel, "tokens": v.tokens}
            row |= {f"F{k + 1} found": int(v.found[k]) for k in (0, 1)}
            row |= {f"F{k + 1} espeak (Hz)": v.reference[k] for k in (0, 1)}
            row |= {f"F{k + 1} model (Hz)": v.model[k] for k in (0, 1)}
            row |= {f"F{k + 1} off (Hz)": v.model[k] - v.reference[k] for k in (0, 1)}
            rows.append(row | {f"F{k + 1} off (%)": v.percent[k] for k in (0, 1)})
        return rows

    @property
    def mean_table(self) -> list[dict[str, Any]]:
        """A row for each voice, and one for the control: mean size of the deviation."""
        named = {**self.deviations, "control: audio turned by half": deviation(self.control)}
        return [{"voice": name, "F1 off (%)": off[0], "F2 off (%)": off[1]} for name, off in named.items()]


def vowel_formants(pairs: SentencePairs) -> VowelFormants:
    """Measure F1 and F2 of every vowel in `pairs`, and those of the control."""
    model, control = pairs.model, misplaced(pairs.model)
    return VowelFormants(vowels(zip(pairs.espeak, model, strict=True)), vowels(zip(pairs.espeak, control, strict=True)))


def _formants(recording: Recording) -> list[tuple[str, Floats]]:
    """Return (vowel, F1 and F2 in Hz) of every monophthong."""
    track = formant_tracks(recording.audio, SAMPLE_RATE, ceiling=CEILINGS[recording.voice])
    return [
        (phoneme, track.middle(begin / SAMPLE_RATE, end / SAMPLE_RATE))
        for phoneme, begin, end in recording.phonemes()
        if phoneme[0] in MONOPHTHONGS
    ]
