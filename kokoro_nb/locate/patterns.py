"""What the wrong elements of a tensor have in common, in words."""

from dataclasses import dataclass

import numpy as np

_EVEN = 1e-3  # spread of the error along time, of its mean, below which it counts as constant


@dataclass(frozen=True)
class Pattern:
    """Where a tensor is wrong.

    Attributes
    ----------
    count, size : int
        Wrong elements, and all.
    channels : int
        How many channels the tensor has: axis 1 of two axes or more; 0 for fewer axes.
    whole, partly : tuple of int
        Channels that are wrong throughout, and in part.
    constant : bool
        Whether the error is finite and the same along the last axis in every channel that is wrong throughout.
    begin, end : int
        First wrong position along the last axis, and the one after the last.
    length : int
        Size of the last axis.
    """

    count: int
    size: int
    channels: int
    whole: tuple[int, ...]
    partly: tuple[int, ...]
    constant: bool
    begin: int
    end: int
    length: int

    @property
    def words(self) -> str:
        """The pattern in one phrase.

        >>> values = np.zeros((1, 4, 3)); bad = values.copy(); bad[0, 1] = 2.0
        >>> pattern(bad != values, bad - values).words
        '1 of 4 channels wholly, by the same amount along time: a per-channel scalar'
        """
        if not self.count:
            return "nowhere"
        where = [
            f"{len(found)} of {self.channels} channels {how}"
            for found, how in ((self.whole, "wholly"), (self.partly, "partly"))
            if found
        ]
        everywhere = self.count == self.size
        text = "everywhere" if everywhere else ", ".join(where) or f"{self.count} of {self.size} elements"
        if self.constant and self.length > 1:
            text += ", by the same amount along time"
            text += "" if everywhere else ": a per-channel scalar"
        elif (self.begin, self.end) != (0, self.length):
            text += f", at positions {self.begin} to {self.end - 1} of {self.length} along the last axis"
        return text


def pattern(wrong: np.ndarray, error: np.ndarray) -> Pattern:
    """Describe where `wrong` holds.

    Parameters
    ----------
    wrong : numpy.ndarray of bool
        The elements that are wrong.
    error : numpy.ndarray of the same shape
        What was given less what is right; of an element that is not finite on either side, NaN.
    """
    length = wrong.shape[-1] if wrong.ndim else 1
    places = np.flatnonzero(wrong.reshape(-1, length).any(axis=0)) if wrong.size else np.array([], dtype=int)
    begin, end = (int(places[0]), int(places[-1]) + 1) if places.size else (0, 0)
    channels = 0
    whole: tuple[int, ...] = ()
    partly: tuple[int, ...] = ()
    if wrong.ndim > 1:
        axes = tuple(axis for axis in range(wrong.ndim) if axis != 1)
        channels, every = wrong.shape[1], set(np.flatnonzero(wrong.all(axis=axes)).tolist())
        some = np.flatnonzero(wrong.any(axis=axes)).tolist()
        whole, partly = tuple(one for one in some if one in every), tuple(one for one in some if one not in every)
    constant = bool(whole) and not partly and _even(np.moveaxis(error, 1, 0)[list(whole)])
    return Pattern(int(wrong.sum()), int(wrong.size), channels, whole, partly, constant, begin, end, length)


def _even(error: np.ndarray) -> bool:
    """Return whether each row along the last axis holds one finite number."""
    if not np.isfinite(error).all():
        return False
    spread = error.max(axis=-1) - error.min(axis=-1)
    return bool((spread < _EVEN * np.abs(error).max(axis=-1)).all())
