"""Statistics of a whole tensor, with what is not finite counted and never replaced."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

SAMPLE = 4096
PERCENTS = (1, 25, 50, 75, 99)
_BLOCK = 1 << 16  # elements that are widened to float64 at once
_ROW = 1024  # elements that are summed in float32
_COMMON = (1e-12, 1e12)  # peaks whose squares, and sums of squares, float32 holds


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
        Over the finite elements alone; NaN where there are none. Mean and rms are accumulated in float64; of a float32
        tensor of 4096 elements or more that is wholly finite and within 1e-12 to 1e12, 1024 elements at a time are
        summed in float32 first.
    percentiles : tuple of float
        The 1st, 25th, 50th, 75th and 99th of the finite elements; NaN where there are none. Of a tensor with more than
        4096 elements, those of every k-th element, so many that some 4096 are looked at: an estimate, and the only one
        here.
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
    percentiles: tuple[float, ...]
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
        return margin(self.peak, self.dtype)

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
    """Measure `array`, of any shape and numeric or boolean dtype, in memory that does not grow with it."""
    array = np.asarray(array)
    size = array.size * (2 if np.iscomplexobj(array) else 1)
    sound, bad, nan = size, 0, 0
    moments = _quick_moments(array)
    if moments is None:
        low, high, bad, nan = _range(array)
        sound = size - bad
        moments = (low, high, *_moments(array, bool(bad), sound, max(-low, high))) if sound else _NOTHING
    low, high, mean, rms = moments
    percentiles = _percentiles(array, bool(bad), sound) if sound else (float("nan"),) * len(PERCENTS)
    whole, partly = _bad_channels(array) if bad and array.ndim > 1 else ((), ())
    return Statistics(
        shape=array.shape,
        dtype=str(array.dtype),
        finite=sound / size if size else float("nan"),
        nan=nan,
        inf=bad - nan,
        minimum=low,
        maximum=high,
        mean=mean,
        rms=rms,
        percentiles=percentiles,
        channels_whole=whole,
        channels_partly=partly,
        first_index=_first_bad(array) if bad else None,
    )


def margin(peak: float, dtype: str) -> float:
    """Return the room between `peak` and the largest finite number of the float `dtype`, in dB.

    >>> round(margin(655.04, "float16"), 6)
    40.0
    """
    if not dtype.startswith("float") or np.isnan(peak):
        return float("nan")
    limit = float(np.finfo(dtype).max)
    return float(20 * (np.log10(limit) - np.log10(peak))) if peak else float("inf")


_NOTHING = (float("nan"),) * 4


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the elements in C order, some at a time; a tensor that is strided is not copied as a whole either."""
    if array.flags.c_contiguous:
        chunks: Any = (array.ravel(),)
    else:
        chunks = np.nditer(array, ["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=_BLOCK)
    for chunk in chunks:
        for start in range(0, chunk.size, _BLOCK):
            block = np.ascontiguousarray(chunk[start : start + _BLOCK])
            yield block.view(block.real.dtype) if np.iscomplexobj(block) else block


def _quick_moments(array: np.ndarray) -> tuple[float, float, float, float] | None:
    """Return minimum, maximum, mean and root mean square of what is common, None of anything else.

    Common is a float32 tensor of some size in one piece, wholly finite, of numbers neither very large nor very small.
    """
    if array.dtype != np.float32 or not array.flags.c_contiguous or array.size < 4 * _ROW:
        return None
    low, high, total, squares = np.inf, -np.inf, 0.0, 0.0
    for block in _blocks(array):
        least, most = float(block.min()), float(block.max())
        # a minimum or maximum that is finite says that every element is: NaN and infinity come through both
        if not (np.isfinite(least) and np.isfinite(most) and _COMMON[0] < max(-least, most) < _COMMON[1]):
            return None
        low, high = min(low, least), max(high, most)
        whole = block.size // _ROW * _ROW
        rows, rest = block[:whole].reshape(-1, _ROW), block[whole:].astype(np.float64)
        total += float(np.einsum("ij->i", rows).sum(dtype=np.float64)) + float(rest.sum())
        squares += float(np.vecdot(rows, rows).sum(dtype=np.float64)) + float(np.square(rest).sum())
    return low, high, total / array.size, float(np.sqrt(squares / array.size))


def _range(array: np.ndarray) -> tuple[float, float, int, int]:
    """Return minimum and maximum of the finite elements, how many are not finite, and how many of these are NaN."""
    low, high, bad, nan = np.inf, -np.inf, 0, 0
    for block in _blocks(array):
        least, most = float(block.min()), float(block.max())
        if not (np.isfinite(least) and np.isfinite(most)):
            sound = block[np.isfinite(block)]
            bad, nan = bad + block.size - sound.size, nan + int(np.isnan(block).sum())
            least, most = float(sound.min(initial=np.inf)), float(sound.max(initial=-np.inf))
        low, high = min(low, least), max(high, most)
    return low, high, bad, nan


def _moments(array: np.ndarray, bad: bool, count: int, peak: float) -> tuple[float, float]:
    """Return mean and root mean square (in float64) of the finite elements, of which there are `count`."""
    scale = peak if peak and not 1e-100 < peak < 1e100 else 1.0  # squares of what is very large or small stay in range
    total = squares = 0.0
    for block in _blocks(array):
        wide = (block[np.isfinite(block)] if bad else block).astype(np.float64)
        if scale != 1:
            wide /= scale
        total += float(wide.sum())
        squares += float(np.square(wide, out=wide).sum())  # a dot product would wake BLAS's threads for each block
    return scale * (total / count), scale * float(np.sqrt(squares / count))


def _percentiles(array: np.ndarray, bad: bool, count: int) -> tuple[float, ...]:
    """Return percentiles of the finite elements, of which there are `count`."""
    step = -(-count // SAMPLE)
    seen = 0
    sample = []
    for block in _blocks(array):
        numbers = block[np.isfinite(block)] if bad else block
        sample.append(numbers[-seen % step :: step].copy())
        seen += numbers.size
    ordered = np.sort(np.concatenate(sample))
    places = (np.asarray(PERCENTS) * (ordered.size - 1) + 50) // 100  # the nearest rank, rounded
    return tuple(map(float, ordered[places]))


def _bad_channels(array: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rows = np.moveaxis(array, 1, 0)
    height = max(1, _BLOCK // max(1, rows[0].size))  # channels that are looked at together
    whole: list[int] = []
    partly: list[int] = []
    for start in range(0, len(rows), height):
        finite = np.isfinite(rows[start : start + height])
        rest = tuple(range(1, finite.ndim))
        every, some = finite.all(axis=rest), finite.any(axis=rest)
        whole += (start + np.flatnonzero(~some)).tolist()
        partly += (start + np.flatnonzero(np.logical_xor(some, every))).tolist()
    return tuple(whole), tuple(partly)


def _first_bad(array: np.ndarray) -> tuple[int, ...]:
    seen = 0
    for block in _blocks(array):
        finite = np.isfinite(block)
        if not finite.all():
            width = 2 if np.iscomplexobj(array) else 1
            return tuple(map(int, np.unravel_index((seen + int(np.argmin(finite))) // width, array.shape)))
        seen += block.size
    raise AssertionError("every element is finite")
