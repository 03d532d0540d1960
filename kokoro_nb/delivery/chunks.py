"""A long string of phonemes cut where it may be cut, and what was spoken of the pieces joined again."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from kokoro_nb.errors import InputError

FADE = 0.005  # s, at each side of a join: both are near silence there, and a step between them would click


def cut(symbols: str, fits: Callable[[str], bool]) -> list[str]:
    """Return `symbols` in pieces that fit, cut behind pauses, and at spaces where what is between them does not fit.

    Parameters
    ----------
    symbols : str
        Phonemes, with spaces and punctuation.
    fits : callable
        Whether there is room for some of them.

    Raises
    ------
    InputError
        If a single word does not fit.

    Examples
    --------
    >>> cut("ab cd, ef gh. ij", lambda some: len(some) <= 9)
    ['ab cd,', 'ef gh. ij']
    """
    if fits(symbols):
        return [symbols]
    for pause in (r"(?<=[.!?…])\s+", r"(?<=[,;:—.!?…])\s+", r"\s+"):
        parts = re.split(pause, symbols)
        if len(parts) > 1:
            return _gathered(parts, fits)
    raise InputError(f"There is no room for the word '{symbols}'; deliver with more tokens or a longer bucket.")


def _gathered(parts: Sequence[str], fits: Callable[[str], bool]) -> list[str]:
    """Put neighbours together as long as they fit; a part that does not fit by itself is cut further."""
    found: list[str] = []
    for part in parts:
        longer = f"{found[-1]} {part}" if found else part
        if found and fits(longer):
            found[-1] = longer
        else:
            found += cut(part, fits)
    return found


def joined(spoken: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
    """Return the pieces one after the other, faded over 5 ms at each side of a join; one piece as it is.

    Parameters
    ----------
    spoken : sequence of numpy.ndarray, each of shape (samples,), float32
    sample_rate : int
        Hz.
    """
    ramp = np.linspace(0, 1, round(FADE * sample_rate), dtype=np.float32)
    made = [piece.copy() for piece in spoken]
    for before, after in pairwise(made):
        before[-len(ramp) :] *= ramp[::-1]
        after[: len(ramp)] *= ramp
    return np.concatenate(made)
