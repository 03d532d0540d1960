"""How far one tensor is from another, in numbers that NaN cannot improve."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError

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
        signal = float(np.sum(a**2))
        snr = float(10 * np.log10(np.float64(signal) / noise)) if noise else float("inf")
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
    if value.shape != right.shape:
        return float("inf")
    given, right = value.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(right)
    if (finite != np.isfinite(given)).any():
        return float("inf")
    if not finite.any():
        return 0.0
    error = float(np.abs(given[finite] - right[finite]).max())
    peak = float(np.abs(right[finite]).max())
    return of_peak(error, peak)
