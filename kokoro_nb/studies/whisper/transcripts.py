"""What Whisper hears in some phrases, and when it hears each word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.recogniser import load_whisper, whisper_available
from kokoro_nb.listening.transcript import Transcript, doubts, phrase_error_rate
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case


def listener(model: str) -> tuple[Any, str]:
    """Return openai-whisper's model of that name or path, or None and why it is not here."""
    reason = whisper_available(model)
    return (None, reason) if reason else (load_whisper(model), "")


def rate_row(texts: Sequence[str], heard: Sequence[Transcript | None]) -> dict[str, float]:
    """Return the word error rate over all `texts`, and how sure Whisper was; None where audio is not finite."""
    return {
        "WER": phrase_error_rate(texts, heard),
        "doubted": sum(not one or bool(doubts(one)) for one in heard),
        "phrases": len(heard),
        "mean log probability": float(np.mean([one.avg_logprob if one else np.nan for one in heard])),
    }


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
