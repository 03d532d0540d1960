"""Statistics of a whole tensor, with what is not finite counted and never replaced, and its distance from another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError

BLOCK = 2**13  # elements: several arrays in float64 stay in the cache, and BLAS takes no second thread
_ONES = np.ones(BLOCK)


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
        return in_channels(self.channels_whole, self.channels_partly, self.shape[1], " non-finite")


def in_channels(whole: Sequence[int], partly: Sequence[int], channels: int, what: str = "") -> str:
    """Return in words which channels are concerned, ``2 of 4 channels wholly, 1 of 4 channels partly``."""
    counts = ((whole, "wholly"), (partly, "partly"))
    return ", ".join(f"{len(found)} of {channels} channels {how}{what}" for found, how in counts if found)


def describe(array: Any) -> Statistics:
    """Measure `array`, of any shape and numeric or boolean dtype."""
    array = np.asarray(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat
    finite = np.isfinite(flat)
    bad = flat.size - int(np.count_nonzero(finite))
    known = flat[finite] if bad else flat
    each = finite.reshape(*array.shape, -1) if bad else finite  # of a complex number both parts
    channels = wrong_channels(~each) if bad and array.ndim > 1 else ((), ())
    nan, share = int(np.isnan(flat[~finite]).sum()) if bad else 0, known.size / flat.size if flat.size else float("nan")
    first = tuple(map(int, np.unravel_index(int(np.argmin(each.all(axis=-1))), array.shape))) if bad else None
    return Statistics(array.shape, str(array.dtype), share, nan, bad - nan, *_moments(known), *channels, first)


def _moments(known: np.ndarray) -> tuple[float, float, float, float]:
    """Return minimum, maximum, mean and root mean square (in float64) of elements that are all finite."""
    if not known.size:
        return (float("nan"),) * 4
    low, high = float(known.min()), float(known.max())
    peak = max(-low, high)
    scale = peak if peak and not 1e-100 < peak < 1e100 else 1.0  # squares of what is very large or small stay in range
    sums = np.zeros(2)
    for start in range(0, known.size, BLOCK):
        wide = np.divide(known[start : start + BLOCK], scale, dtype=np.float64)
        sums += wide @ _ONES[: wide.size], wide @ wide  # a product is faster than a sum
    mean, power = sums / known.size
    return low, high, float(scale * mean), float(scale * np.sqrt(power))


@np.errstate(invalid="ignore")  # which ml_dtypes reports of NaN
def largest(values: np.ndarray) -> float:
    """Return the largest absolute value, NaN if one is NaN."""
    return float(np.maximum(float(values.max(initial=0)), 0.0 - float(values.min(initial=0))))


def wrong_channels(wrong: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the channels, axis 1 of truth values of two axes or more, that hold wholly, and in part."""
    axes = tuple(axis for axis in range(wrong.ndim) if axis != 1)
    some, every = wrong.any(axis=axes), wrong.all(axis=axes)
    whole, partly = np.flatnonzero(some & every), np.flatnonzero(some & ~every)
    return tuple(whole.tolist()), tuple(partly.tolist())


def blockwise(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Return what an elementwise function gives for arrays of one shape, in float64, computed block by block."""
    flat, result = [one.ravel() for one in arrays], np.empty(arrays[0].size)
    for start in range(0, result.size, BLOCK):
        result[start : start + BLOCK] = function(*(one[start : start + BLOCK] for one in flat))
    return result.reshape(arrays[0].shape)


FLOORS = 4  # a right runtime rounds elsewhere than eager float32, and so may be off by a few times as much


@dataclass(frozen=True)
class Parity:
    """A candidate compared with a reference of the same shape, in float64.

    Attributes
    ----------
    finite : float
        Share of the candidate's elements that are finite, 0 to 1.
    peak : float
        Largest absolute value of the reference.
    max_error : float
        Largest absolute difference; NaN as soon as either side has a NaN.
    snr_db : float
        Energy of the reference over energy of the difference, dB; inf for identical tensors.
    correlation : float
        Pearson's; NaN where either side is constant.
    """

    finite: float
    peak: float
    max_error: float
    snr_db: float
    correlation: float

    @property
    def of_peak(self) -> float:
        """Largest difference as a share of the reference's peak; 0 for identical tensors, even silent ones."""
        return of_peak(self.max_error, self.peak)


def of_peak(size: float, peak: float) -> float:
    """Return a size as a share of a peak: infinite where only 0 is right, but 0 of no size at all.

    >>> of_peak(1, 4), of_peak(1, 0), of_peak(0, 0)
    (0.25, inf, 0.0)
    """
    if not size:
        return 0.0
    return float(size / peak) if peak else float("inf")


def share_of_peak(share: float, whose: str = "the") -> str:
    """Return what `of_peak` gave in words, ``0.25 of its peak``."""
    return "more than 0, where only 0 is right" if np.isinf(share) else f"{share:.3g} of {whose} peak"


def allowed_error(limit: float, floor: float | None) -> float:
    """Return what a right runtime may be off by: `limit`, or `FLOORS` times `floor` where that is more.

    Parameters
    ----------
    limit, floor : float
        Shares of the peak: what is allowed of any weights, and how far eager float32 is from float64 on these; None
        where that is not known.
    """
    return limit if floor is None else float(np.maximum(limit, FLOORS * floor))


def compare(reference: Any, candidate: Any) -> Parity:
    """Compare `candidate` with `reference`, arrays of the same shape.

    Raises
    ------
    InputError
        If the shapes differ: nothing is cropped or broadcast here.
    """
    a, b = np.asarray(reference, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if a.shape != b.shape:
        raise InputError(f"Shapes {a.shape} and {b.shape} cannot be compared; cut both to the same part first.")
    if not a.size:
        raise InputError("Tensors without elements cannot be compared; check what was captured.")
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # what is not finite differs even from itself, so inf - inf is left to be NaN
        difference = b - a
        noise = float(np.sum(difference**2))
        snr = float(10 * np.log10(np.float64(np.sum(a**2)) / noise)) if noise else float("inf")
        centred_a, centred_b = a - a.mean(), b - b.mean()
        norm = float(np.sqrt(np.sum(centred_a**2) * np.sum(centred_b**2)))
        correlation = float(np.sum(centred_a * centred_b)) / norm if norm else float("nan")
    largest, peak = float(np.max(np.abs(difference))), float(np.max(np.abs(a)))
    return Parity(float(np.isfinite(b).mean()), peak, largest, snr, correlation)


def largest_error(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> float:
    """Return the largest error of any output by name, as a share of that output's peak; NaN if there is one."""
    return float(np.max([compare(reference[name], candidate[name]).of_peak for name in reference]))


def relative_difference(value: np.ndarray, right: np.ndarray) -> float:
    """Return the largest difference as a share of the peak of what is right.

    Infinite where shapes differ, or something is finite on one side alone; 0 of two empty or two equal tensors.
    """
    given, right = np.asarray(value, np.float64), np.asarray(right, np.float64)
    finite = np.isfinite(right)
    if not np.array_equal(finite, np.isfinite(given)):
        return float("inf")
    error = float(np.abs(given[finite] - right[finite]).max(initial=0))
    return of_peak(error, float(np.abs(right[finite]).max(initial=0)))
