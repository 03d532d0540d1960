"""From espeak's phoneme times to a number of frames for each symbol that the model reads."""

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.phonemes import SILENT
from training.espeak import EspeakSpeech

STRESS = "ˈˌ"
MERGES = {  # what misaki's EspeakG2P makes of espeak's tied pairs
    "aɪ": "I", "aʊ": "W", "dz": "ʣ", "dʒ": "ʤ", "eɪ": "A", "oʊ": "O", "əʊ": "Q", "ts": "ʦ", "tʃ": "ʧ", "ɔɪ": "Y",
}  # fmt: skip


class AlignmentError(InputError):
    """The phonemes that espeak spoke are not those of the text's transcription."""


def merge(ipa: str) -> str:
    """Return a phoneme event in the symbols of Kokoro's table.

    >>> merge("ˈoʊ"), merge("tʃ"), merge("əl")
    ('ˈO', 'ʧ', 'əl')
    """
    for pair, symbol in MERGES.items():
        ipa = ipa.replace(pair, symbol)
    return ipa.replace("-", "")


def align(symbols: str, speech: EspeakSpeech) -> np.ndarray:
    """Carry the times of espeak's phonemes over to `symbols`.

    A stress mark gets a small share of its phoneme, the length mark a share of the vowel; spaces and punctuation get
    the pauses, and nothing where there is none.

    Parameters
    ----------
    symbols : str
        Phonemes as the model reads them, with spaces and punctuation.
    speech : EspeakSpeech

    Returns
    -------
    numpy.ndarray, shape (symbols + 1,), float64, samples
        Where each symbol begins in ``speech.audio``, and where the last ends.

    Raises
    ------
    AlignmentError
        If espeak said other phonemes.
    """
    starts = np.full(len(symbols) + 1, np.nan)
    at = 0

    def skip_silent(begin: float, end: float) -> int:
        """Spread what is silent in `symbols` here over a pause."""
        stop = at
        while stop < len(symbols) and symbols[stop] in SILENT:
            stop += 1
        starts[at:stop] = np.linspace(begin, end, stop - at, endpoint=False)
        return stop

    for ipa, begin, end in zip(speech.phonemes, speech.boundaries[:-1], speech.boundaries[1:], strict=True):
        spoken = merge(ipa)
        if not spoken:
            pause = skip_silent(begin, end)
            if pause == at and at and symbols[at - 1] not in SILENT and at < len(symbols):
                continue  # a pause inside a word: a closure, it belongs to the phoneme before
            at = pause
            continue
        at = skip_silent(begin, begin)
        if not symbols.startswith(spoken, at):
            raise AlignmentError(f"espeak says {spoken!r} where the text has {symbols[at : at + 4]!r}.")
        weights = np.array([0.25 if c in STRESS else 0.6 if c == "ː" else 1.0 for c in spoken])
        shares = np.concatenate([[0.0], np.cumsum(weights)[:-1]]) / weights.sum()
        starts[at : at + len(spoken)] = begin + shares * (end - begin)
        at += len(spoken)
    at = skip_silent(speech.boundaries[-1], speech.boundaries[-1])
    if at != len(symbols):
        raise AlignmentError(f"espeak does not say {symbols[at:]!r}.")
    starts[-1] = speech.boundaries[-1]
    return starts


def frame_durations(starts: np.ndarray, frames: int) -> np.ndarray:
    """Round boundaries to whole frames so that the durations add up to `frames` and none is below one.

    Rounding is cumulative: boundaries are rounded, not lengths, so the error never grows along the sentence. Where two
    boundaries fall together the later one moves on, since the model gives every symbol at least one frame.

    Parameters
    ----------
    starts : numpy.ndarray, shape (symbols + 1,), float64, samples
        Boundaries, the first 0, the last ``600 * frames``.
    frames : int

    Returns
    -------
    numpy.ndarray, shape (symbols,), int64, frames

    >>> frame_durations(np.array([0.0, 900.0, 950.0, 2400.0]), 4)
    array([2, 1, 1])
    """
    count = len(starts) - 1
    if count > frames:
        raise AlignmentError(f"{count} symbols do not fit into {frames} frames.")
    place = np.rint(starts / SAMPLES_PER_FRAME).astype(np.int64)
    steps = np.arange(count + 1)
    place = np.maximum.accumulate(place - steps) + steps  # each at least one after the one before
    place = np.minimum(place, frames - steps[::-1])  # and leaving one frame to each that follows
    place[0] = 0
    return np.diff(place)
