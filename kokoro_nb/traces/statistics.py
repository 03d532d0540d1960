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
        Share of the elements that are finite, 0 to 1; NaN for a tensor without elements.
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
    def pattern(self) -> str:
        """The non-finite part in words.

        >>> describe(np.array([[[1.0, 2.0], [np.nan, np.inf]]])).pattern
        '1 of 2 channels wholly non-finite'
        """
        if self.finite == 1:
            return "all finite"
        if np.isnan(self.finite):
            return "empty"
        if self.finite == 0:
            return "wholly non-finite"
        if not self.channels_whole and not self.channels_partly:
            return f"{100 * self.finite:.3g} % finite"
        counts = ((self.channels_whole, "wholly"), (self.channels_partly, "partly"))
        words = [
            f"{len(channels)} of {self.shape[1]} channels {how} non-finite" for channels, how in counts if channels
        ]
        return ", ".join(words)


def describe(array: Any) -> Statistics:
    """Measure `array`, of any shape and of float, integer or boolean dtype."""
    array = np.asarray(array)
    values = array.astype(np.float64)
    finite = np.isfinite(values)
    good = values[finite]
    whole: tuple[int, ...] = ()
    partly: tuple[int, ...] = ()
    if array.ndim > 1 and array.size and good.size < array.size:
        share = np.moveaxis(finite, 1, 0).reshape(array.shape[1], -1).mean(axis=1)
        whole = tuple(np.flatnonzero(share == 0).tolist())
        partly = tuple(np.flatnonzero((share > 0) & (share < 1)).tolist())
    first = None
    if good.size < array.size:
        first = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape))
    nothing = float("nan")
    return Statistics(
        shape=array.shape,
        dtype=str(array.dtype),
        finite=float(finite.mean()) if array.size else nothing,
        nan=int(np.isnan(values).sum()),
        inf=int(np.isinf(values).sum()),
        minimum=float(good.min()) if good.size else nothing,
        maximum=float(good.max()) if good.size else nothing,
        mean=float(good.mean()) if good.size else nothing,
        rms=float(np.sqrt(np.mean(good * good))) if good.size else nothing,
        channels_whole=whole,
        channels_partly=partly,
        first_index=first,
    )
