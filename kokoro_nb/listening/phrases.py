"""A fixed list of phrases, their transcripts, and the word error rate over all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.transcript import Transcript, is_speech, normalise, transcribe

PHRASES = Path(__file__).parents[2] / "data" / "phrases.txt"
NOTES = PHRASES.with_name("notes.txt")


def phrases(count: int) -> tuple[str, ...]:
    """Return the first `count` phrases of the list, which neither the small voice nor the small ear was taught.

    Raises
    ------
    InputError
        If there are not so many.
    """
    known = tuple(PHRASES.read_text(encoding="utf-8").splitlines())
    if not 1 <= count <= len(known):
        raise InputError(
            f"{count} phrases are requested and {PHRASES.name} has {len(known)}; request 1 to {len(known)}."
        )
    return known[:count]


def spoken_texts(text: str, count: int) -> tuple[str, ...]:
    """Return what is to be spoken.

    Parameters
    ----------
    text : str
        A text of one's own; empty for the first `count` of `phrases`; ``notes`` for the sentences with which earlier
        ports were tried, punctuation, numbers and long sentences, a minute of speech in all.
    count : int
    """
    if text == "notes":
        return tuple(NOTES.read_text(encoding="utf-8").splitlines())
    return (text,) if text else phrases(count)


def believed(transcript: Transcript | None) -> str:
    """Return what counts as heard, normalised: nothing where there is no transcript, or a doubted one."""
    return normalise(transcript.text) if transcript is not None and is_speech(transcript) else ""


def phrase_error_rate(texts: Sequence[str], heard: Sequence[Transcript | None]) -> float:
    """Return the word error rate over all `texts`: errors over the words of all of them.

    Parameters
    ----------
    texts : sequence of str
        What was spoken.
    heard : sequence of Transcript or None
        One for each text. A doubted one, or None, counts as if nothing had been heard: every word is an error.

    >>> phrase_error_rate(["two cats", "one dog"], [None, Transcript("one dog", -0.1, 0.0, 0.9)])
    0.5
    """
    import jiwer

    return float(jiwer.wer([normalise(text) for text in texts], [believed(transcript) for transcript in heard]))


def heard_in(model: Any, audio: Sequence[np.ndarray], sr: int, words: bool = False) -> list[Transcript | None]:
    """Return what `model` hears in each signal; None where one is not finite, and so is nothing to be listened to."""
    return [transcribe(model, y, sr, words) if np.isfinite(y).all() else None for y in audio]
