"""Whether the spectrum of an audio is the model's, where its samples cannot be: the distance beside that of rounding.

Before the source's atan2 any rounding makes another waveform, in two runtimes that are both right. Their spectra stay
near each other, and how near is measured on the model itself, in float32 against float64.
"""

from dataclasses import dataclass

import numpy as np

from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.listening.waveform import Signal

TRANSPARENT = 1.0  # dB: a distance that is not heard (Paliwal and Atal, 1993)
UNRELATED = 20 * np.pi / np.log(10) / np.sqrt(12)
"""dB, 7.88: two draws of noise of one spectrum. Their powers in a bin are exponentially distributed; the logarithm of
one has the variance pi**2 / 6, and that of their ratio twice as much."""
# of the floor, what a limit has to be at least: healthy deliveries were at 0.86 to 1.07 of it (6 texts at full size)
CLEAR = 1.25


def rounding_limit(floor: float) -> float:
    """Return what a distance may be for the rounding that moves the model by `floor`, both dB: twice as much.

    Never more than half of `UNRELATED`: what spoils the floor as well must not raise its own limit.

    >>> rounding_limit(0.5), round(rounding_limit(8.0), 2)
    (1.0, 3.94)
    """
    return float(np.minimum(2 * floor, UNRELATED / 2))


def is_judged(floor: float, limit: float) -> bool:
    """Return whether rounding leaves an audio so near to itself that it can be held to a limit.

    With weights that are not trained it may not.

    Parameters
    ----------
    floor, limit : float
        What rounding alone costs, and what may be lost at most, of any measure.
    """
    return not CLEAR * floor > limit


@dataclass(frozen=True)
class SpectralAgreement:
    """How far an audio is from the model's.

    Attributes
    ----------
    distance : float
        Log-spectral distance to what is right, dB; NaN where the audio is not finite or not as long.
    floor : float
        The same of the model itself, as far as rounding moves it, dB.
    """

    distance: float
    floor: float

    @property
    def limit(self) -> float:
        """What the distance may be, dB: `TRANSPARENT`, or twice the floor within `rounding_limit`."""
        return float(np.maximum(TRANSPARENT, rounding_limit(self.floor)))


def spectral_agreement(exact: Signal, reference: Signal, candidate: Signal) -> SpectralAgreement:
    """Compare an audio with the model in float64, and the model in float32 with that too.

    Parameters
    ----------
    exact, reference, candidate : numpy.ndarray, any shape of n samples, float
        By the model in float64, by the model in float32, and by an export; full scale 1.
    """
    right, single, found = (np.asarray(one, np.float64).reshape(-1) for one in (exact, reference, candidate))
    distance = log_spectral_distance(right, found) if found.size == right.size else float("nan")
    return SpectralAgreement(distance, log_spectral_distance(right, single))
