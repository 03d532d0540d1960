"""How a candidate would be judged against its reference: PESQ (ITU-T P.862.2, wide band) and STOI (Taal et al., 2011).

Both were fitted to what people said and understood; neither knows this project. They compare two signals in time, which
are brought into step first.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.listening.waveform import Signal, as_pair, lag

PESQ_RATE = 16_000  # Hz: wide band
SHORTEST = 0.5  # seconds: STOI needs 30 frames of 12.8 ms, PESQ a quarter of a second
STEP = 0.05  # seconds: how far they may be out of step


@dataclass(frozen=True)
class PerceivedQuality:
    """What two judges say of a candidate.

    Attributes
    ----------
    pesq : float
        Mean opinion score, 1.04 (bad) to 4.64 (the reference itself); NaN where it cannot be computed.
    stoi : float
        Share of the words that are understood, monotonic and not in proportion, 0 to 1; NaN likewise.
    late : int
        Samples by which the candidate was late, and was moved.
    reason : str
        Why there are no figures; empty where there are.
    """

    pesq: float
    stoi: float
    late: int = 0
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row = {"PESQ wide band (MOS, 1.04 to 4.64)": self.pesq, "STOI (0 to 1)": self.stoi}
        return {**row, "moved by (samples)": self.late, "why not": self.reason}


def perceived_quality(reference: Signal, candidate: Signal, sr: int) -> PerceivedQuality:
    """Let both judge `candidate`.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples at `sr` Hz, of one length.
    sr : int
        Sampling rate, Hz.

    Raises
    ------
    InputError
        If either is no signal, or their lengths differ.
    """
    first, second = as_pair(reference, candidate)
    nothing = float("nan")
    if first.size < SHORTEST * sr:
        return PerceivedQuality(nothing, nothing, 0, f"it is shorter than {SHORTEST:g} s")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return PerceivedQuality(nothing, nothing, 0, "it is not finite")
    if not (first.any() and second.any()):
        return PerceivedQuality(nothing, nothing, 0, "it is silent")
    found = lag(first, second, min(round(STEP * sr), first.size - 1))
    late = 0 if np.isnan(found) else round(found)
    first, second = (first[: first.size - late], second[late:]) if late >= 0 else (first[-late:], second[:late])
    return PerceivedQuality(_pesq(first, second, sr), _stoi(first, second, sr), late)


def _pesq(reference: Signal, candidate: Signal, sr: int) -> float:
    from pesq import NoUtterancesError, pesq
    from scipy.signal import resample_poly

    divisor = int(np.gcd(sr, PESQ_RATE))
    both = (resample_poly(y, PESQ_RATE // divisor, sr // divisor) for y in (reference, candidate))
    try:
        return float(pesq(PESQ_RATE, *both, "wb"))
    except NoUtterancesError:
        return float("nan")


def _stoi(reference: Signal, candidate: Signal, sr: int) -> float:
    from pystoi import stoi

    return float(stoi(reference, candidate, sr))
