"""When each word is spoken, by the durations that the model predicted, and when a listener heard it."""

from dataclasses import dataclass

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.transcript import Transcript
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case

PAUSES = frozenset(" ,.!?;:—…")


@dataclass(frozen=True)
class SpokenWord:
    """A word of an utterance, by the predicted durations.

    Attributes
    ----------
    phonemes : str
        As the model was given them.
    begin, end : float
        Seconds.
    """

    phonemes: str
    begin: float
    end: float


def word_times(case: Case) -> tuple[SpokenWord, ...]:
    """Return the words of an utterance with the times that the predicted durations give them; pauses are left out.

    Raises
    ------
    InputError
        If a phoneme of the utterance is not in the model's table, so that symbols and tokens do not correspond.
    """
    edges = np.concatenate([[0], np.cumsum(case.tensors["durations"].numpy())]) * SAMPLES_PER_FRAME / SAMPLE_RATE
    if len(case.phonemes) + 3 != len(edges):  # a pad token at each end
        raise InputError(
            f"{len(case.phonemes)} phonemes and {len(edges) - 3} tokens; some symbols are not in the table."
        )
    words, first = [], None
    for at, symbol in enumerate((*case.phonemes, " "), start=1):
        if symbol in PAUSES and first is not None:
            words.append(SpokenWord(case.phonemes[first - 1 : at - 1], float(edges[first]), float(edges[at])))
        first = None if symbol in PAUSES else (at if first is None else first)
    return tuple(words)


def timing_rows(case: Case, transcript: Transcript | None) -> list[dict[str, str | float]]:
    """Return a table: each word of the utterance, when it is spoken and when it was heard, and the difference.

    The list is empty where the listener heard another number of words, or none with times.
    """
    spoken, heard = word_times(case), transcript.words if transcript else ()
    if len(spoken) != len(heard):
        return []
    return [
        {
            "word": listened.text,
            "spoken (s)": word.begin,
            "heard (s)": listened.start,
            "middle apart (s)": (listened.start + listened.end - word.begin - word.end) / 2,
        }
        for word, listened in zip(spoken, heard, strict=True)
    ]
