"""Where float16 breaks a Core ML model: operator by operator, the float16 file against the float32 file.

Both files are executed by the reference (`backends.mil`), so that every intermediate value can be looked at. Three runs
stand side by side: the float32 file in float64 (what the graph means), in float32, and the float16 file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.traces.parity import Parity

LARGEST = float(np.finfo(np.float16).max)  # 65504
ROUNDING = 2.0**-11  # one rounding to float16, of a value
COARSER = 2.0**13  # how much coarser than float32's: 2^-11 / 2^-24
SCATTER = 8.0  # how far a largest error may lie above its forecast: 3 bits
LOST = 2.0**-4  # an error of this share of the peak leaves 4 of 11 bits
PHASES = ("sin", "cos", "tan")
INPUT = "input"


@dataclass(frozen=True)
class OperatorPrecision:
    """One result of one operator in float16, compared with float32.

    Attributes
    ----------
    name : str
        Name of the eager operator that it is the result of, or the first that it goes into where the converter wrote
        several operators for one: ``decode.1.norm1.norm:mean``; ``input:x``, ``output:y`` for what is rounded there.
    value, type : str
        Name of the result in the float32 file, and type of the MIL operator; ``input`` for an input, rounded.
    dtype : str
        What the float16 file stores it in: ``float16``, or ``float32`` where the file is mixed.
    shape : tuple of int
        Its shape.
    peak : float
        Largest absolute value in float32.
    floor : float
        float32 against float64, as a share of the peak: the noise floor.
    error : float
        The float16 file against the float32 file, as a share of the peak; NaN or inf where its values are.
    local : float or None
        What this operator adds: against itself in float64, with its float32 weights, on the values that the float16
        file gives it. None where that cannot be computed.
    inherited : float or None
        What its inputs add: the operator in float64 on the values of the float16 file, against the float32 file.
    finite : float
        Share of the float16 file's values that are finite, 0 to 1.
    comparable : bool
        Whether all values of the float32 file are finite.
    phase : float or None
        For sin, cos and tan the largest absolute argument, in radians.
    reads : tuple of str
        The results, by their `value`, and inputs that it is computed from.
    """

    name: str
    value: str
    type: str
    dtype: str
    shape: tuple[int, ...]
    peak: float
    floor: float
    error: float
    local: float | None
    inherited: float | None
    finite: float
    comparable: bool = True
    phase: float | None = None
    reads: tuple[str, ...] = ()

    @property
    def forecast(self) -> float:
        """The error of rounding to float16, to first order: float32's own, coarser by 2^13, and at least one rounding.

        A rounding error is proportional to the unit roundoff, whatever the graph makes of it afterwards.
        """
        return float(np.maximum(COARSER * self.floor, ROUNDING))

    @property
    def limit(self) -> float:
        """The error above which the value has left the noise of rounding: 8 forecasts, and no more than 2^-4."""
        return float(np.minimum(SCATTER * self.forecast, LOST))

    @property
    def verdict(self) -> Verdict:
        """``pass``, ``fail`` for a value that has left the noise floor, ``unknown`` where float32 is no reference.

        That is where float32 itself is further than 2^-4 from float64, or not finite.
        """
        if not self.comparable:
            return "unknown"
        if self.error <= self.limit:
            return "pass"
        return "fail" if self.floor <= LOST else "unknown"

    @property
    def cause(self) -> str:
        """Why it failed: ``range``, ``conditioning`` or ``rounding``; ``""`` if it did not.

        ``conditioning``: float32's own error, scaled, foretells it, so that no arithmetic of 11 bits can do better.
        ``rounding``: float16 does worse than that, through what it cannot represent: small numbers, coarse constants.
        """
        if self.verdict != "fail":
            return ""
        if self.finite < 1 or self.peak > LARGEST:
            return "range"
        return "conditioning" if SCATTER * self.forecast > LOST else "rounding"

    @property
    def margin_db(self) -> float:
        """How far the peak lies below 65504, the largest number of float16, in dB; below 0 it overflows."""
        return 20 * float(np.log10(LARGEST / self.peak)) if self.peak else float("inf")

    @property
    def phase_step(self) -> float | None:
        """The distance of two float16 numbers at the largest phase, in radians; inf beyond 65504."""
        return None if self.phase is None else step(self.phase)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "operator": self.name,
            "type": self.type,
            "in the file": self.value,
            "computes in": self.dtype,
            "peak": self.peak,
            "below 65504 (dB)": self.margin_db,
            "float32 floor (of peak)": self.floor,
            "forecast (of peak)": self.forecast,
            "error (of peak)": self.error,
            "local (of peak)": self.local,
            "inherited (of peak)": self.inherited,
            "finite (%)": 100 * self.finite,
            "phase (rad)": self.phase,
            "float16 step (rad)": self.phase_step,
            "verdict": self.verdict,
            "cause": self.cause,
        }


@dataclass(frozen=True)
class Lens:
    """A float16 file compared with the float32 file, result by result.

    Attributes
    ----------
    rows : tuple of OperatorPrecision
        Each result in the order of execution, truth values left out.
    outputs : dict of Parity
        Each output of the float16 file against the float32 file.
    unmatched : tuple of str
        Results of the float16 file that match none of the float32 file: nothing is said of them.
    """

    rows: tuple[OperatorPrecision, ...]
    outputs: Mapping[str, Parity]
    unmatched: tuple[str, ...] = ()

    @property
    def first(self) -> OperatorPrecision | None:
        """The first result, in order of execution, that has left the noise floor; None if none has."""
        return next((row for row in self.rows if row.verdict == "fail"), None)

    @property
    def sources(self) -> tuple[OperatorPrecision, ...]:
        """Results that do not pass although all that they are computed from does: where the trouble begins."""
        good = {row.value: row.verdict == "pass" for row in self.rows}
        return tuple(row for row in self.rows if not good[row.value] and all(good.get(one, True) for one in row.reads))

    @property
    def phases(self) -> tuple[OperatorPrecision, ...]:
        """Sines, cosines and tangents, the largest argument first."""
        found = [row for row in self.rows if row.phase is not None]
        return tuple(sorted(found, key=lambda row: -(row.phase or 0.0)))

    @property
    def worst(self) -> Parity:
        """The output that is furthest from the float32 file."""
        return worst(self.outputs.values())


def worst(parities: Iterable[Parity]) -> Parity:
    """Return the one with the largest error; NaN is larger than any."""
    return max(parities, key=lambda parity: (np.isnan(parity.of_peak), parity.of_peak))


def step(peak: float) -> float:
    """Return the distance of float16 numbers at `peak`; inf where there are none.

    >>> step(4907), step(3.1), step(1e5)
    (4.0, 0.001953125, inf)
    """
    if peak > LARGEST:
        return float("inf")
    return float(np.spacing(np.float16(min(peak, LARGEST - 32))))  # 32 is the last step; NumPy gives inf at its end
