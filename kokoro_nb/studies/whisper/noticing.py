"""Which measures of an audio notice a fault: those that go further than any healthy version does."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kokoro_nb.listening import spectrum, waveform
from kokoro_nb.listening.comparison import FINITE
from kokoro_nb.listening.waveform import Signal

MEASURES = ("RMS ratio", "largest band-energy ratio", "SNR", "log-spectral distance", "mel-cepstral distance")
MARGIN = 2.0  # times the worst healthy version; of an SNR, which is in dB already, the same factor in amplitude


def measured(reference: Signal, candidate: Signal, sr: int) -> dict[str, float]:
    """Return `MEASURES` of one signal against another in dB, and its finite fraction in percent.

    They are those of `comparison.compare_audio`, without the others, which take longer: NaN where either is not finite.
    """
    bands = spectrum.band_energy_ratio_db(reference, candidate, sr)
    values = (
        waveform.rms_ratio_db(reference, candidate),
        float(bands[np.argmax(np.where(np.isnan(bands), -1.0, np.abs(bands)))]),
        waveform.snr_db(reference, candidate),
        spectrum.log_spectral_distance(reference, candidate),
        spectrum.mel_cepstral_distance(reference, candidate, sr),
    )
    return {FINITE: 100 * waveform.finite_fraction(candidate)} | dict(zip(MEASURES, values, strict=True))


def noticed_by(
    healthy: Sequence[Mapping[str, float]], faulty: Sequence[Mapping[str, float]], margin: float = MARGIN
) -> tuple[str, ...]:
    """Return the measures that notice a fault: in each utterance they are further off than in any healthy version.

    Parameters
    ----------
    healthy : sequence of dict
        What `measured` gives for versions that nothing is wrong with, of any of the utterances.
    faulty : sequence of dict
        The same for the version in question, one for each utterance.
    margin : float
        How many times further off than the worst healthy one.

    Returns
    -------
    tuple of str
        Names out of `MEASURES`; the finite fraction alone where an audio is not finite, for then nothing else is
        defined.
    """
    if any(one[FINITE] < 100 for one in faulty):
        return (FINITE,)
    return tuple(name for name in MEASURES if all(_beyond(name, healthy, one, margin) for one in faulty))


def _beyond(name: str, healthy: Sequence[Mapping[str, float]], one: Mapping[str, float], margin: float) -> bool:
    if name == "SNR":
        return one[name] < np.min([sound[name] for sound in healthy]) - 20 * math.log10(margin)
    return abs(one[name]) > margin * np.max([abs(sound[name]) for sound in healthy])
