"""What is valid of a buffer of static length, and what lies behind it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kokoro_nb.models.static_buffers import EXTENTS


@dataclass(frozen=True)
class Tail:
    """What lies behind the valid part of a buffer of static length.

    Attributes
    ----------
    elements : int
        How many elements; never 0.
    nonzero : float
        Share of them that is not 0, 0 to 1; NaN is not 0.
    finite : float
        Share of them that is finite, 0 to 1.
    peak : float
        Largest absolute value among them; NaN if there is one.
    """

    elements: int
    nonzero: float
    finite: float
    peak: float

    def as_dict(self) -> dict[str, float]:
        """Return the cells of a table, with units in its keys."""
        shares = {"non-zero (%)": 100 * self.nonzero, "finite (%)": 100 * self.finite}
        return {"elements": self.elements, **shares, "peak": self.peak}


def valid_part(name: str, value: np.ndarray, valid: Mapping[str, int]) -> np.ndarray:
    """Return the valid part of the output `name`, for so many valid ``tokens`` and ``frames``."""
    return value[_box(name, value, valid)]


def tail_of(name: str, value: np.ndarray, valid: Mapping[str, int]) -> Tail | None:
    """Describe what lies behind the valid part of the output `name`; None if there is nothing."""
    behind = np.ones(value.shape, dtype=bool)
    behind[_box(name, value, valid)] = False
    rest = value[behind].astype(np.float64)
    if not rest.size:
        return None
    nonzero, finite = float((rest != 0).mean()), float(np.isfinite(rest).mean())
    return Tail(rest.size, nonzero, finite, float(np.max(np.abs(rest))))


def _box(name: str, value: np.ndarray, valid: Mapping[str, int]) -> tuple[slice, ...]:
    lengths = {extent.axis: extent.length(valid) for extent in EXTENTS[name]}
    return tuple(slice(lengths.get(axis)) for axis in range(value.ndim))
