"""Statistics of a whole tensor, with what is not finite counted and never replaced."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Statistics:
    """What a tensor holds.

    Attributes
    ----------
    shape : tuple of int
        Its shape.
    dtype : str
        Its dtype, as NumPy calls it.
    finite : float
        Share of the elements that are finite, 0 to 1; NaN for a tensor without elements. Of a complex number, the real
        and the imaginary part are an element each.
    nan, inf : int
        How many elements are NaN, and how many infinite.
    minimum, maximum, mean, rms : float
        Over the finite elements alone; NaN where there are none. Mean and rms are accumulated in float64.
    channels_whole, channels_partly : tuple of int
        Channels (axis 1 of two axes or more) that are wholly, and partly, non-finite.
    first_index : tuple of int or None
        Index of the first non-finite element in C order.
    """

    shape: tuple[int, ...]
    dtype: str
    finite: float
    nan: int
    inf: int
    minimum: float
    maximum: float
    mean: float
    rms: float
    channels_whole: tuple[int, ...]
    channels_partly: tuple[int, ...]
    first_index: tuple[int, ...] | None

    @property
    def peak(self) -> float:
        """Largest absolute value among the finite elements."""
        return max(abs(self.minimum), abs(self.maximum))

    @property
    def margin(self) -> float:
        """Room between the peak and the largest finite number of the dtype, in dB; NaN for integers and truth values.

        Returns infinity for a tensor of zeros.
        """
        if not self.dtype.startswith("float") or np.isnan(self.peak):
            return float("nan")
        limit = float(np.finfo(self.dtype).max)
        return float(20 * (np.log10(limit) - np.log10(self.peak))) if self.peak else float("inf")

    @property
    def pattern(self) -> str:
        """The non-finite part in words.

        >>> describe(np.array([[[1.0, 2.0], [np.nan, np.inf]]])).pattern
        '1 of 2 channels wholly non-finite'
        """
        if self.first_index is None:
            return "empty" if np.isnan(self.finite) else "all finite"
        if not self.finite:
            return "wholly non-finite"
        if not self.channels_whole and not self.channels_partly:
            return f"{100 * self.finite:.3g} % finite"
        counts = ((self.channels_whole, "wholly"), (self.channels_partly, "partly"))
        words = [
            f"{len(channels)} of {self.shape[1]} channels {how} non-finite" for channels, how in counts if channels
        ]
        return ", ".join(words)


def describe(array: Any) -> Statistics:
    """Measure `array`, of any shape and numeric or boolean dtype."""
    array = np.asarray(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat
    finite = np.isfinite(flat)
    bad = flat.size - int(np.count_nonzero(finite))
    known = flat[finite] if bad else flat
    channels = _bad_channels(finite, array.shape) if bad and array.ndim > 1 else ((), ())
    nan, share = int(np.isnan(flat[~finite]).sum()), known.size / flat.size if flat.size else float("nan")
    first = _first_bad(finite, array.shape) if bad else None
    return Statistics(array.shape, str(array.dtype), share, nan, bad - nan, *_moments(known), *channels, first)


def _moments(known: np.ndarray) -> tuple[float, float, float, float]:
    """Return minimum, maximum, mean and root mean square (in float64) of elements that are all finite."""
    if not known.size:
        return (float("nan"),) * 4
    low, high = float(known.min()), float(known.max())
    peak = max(-low, high)
    scale = peak if peak and not 1e-100 < peak < 1e100 else 1.0  # squares of what is very large or small stay in range
    wide = known.astype(np.float64)
    wide /= scale
    return low, high, scale * float(wide.mean()), scale * float(np.sqrt(np.square(wide, out=wide).mean()))


def _bad_channels(finite: np.ndarray, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rows = np.moveaxis(finite.reshape(*shape, -1), 1, 0).reshape(shape[1], -1)
    every, some = rows.all(axis=1), rows.any(axis=1)
    partly = np.flatnonzero(np.logical_xor(some, every))
    return tuple(np.flatnonzero(~some).tolist()), tuple(partly.tolist())


def _first_bad(finite: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    parts = finite.reshape(*shape, -1).all(axis=-1)  # of a complex number both parts
    return tuple(map(int, np.unravel_index(int(np.argmin(parts)), shape)))
