"""Faults made on purpose, one at a time: which of them a transcript shows, and which of them measures show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kokoro.model import KModel

from kokoro_nb.listening import spectrum, waveform
from kokoro_nb.listening.comparison import FINITE
from kokoro_nb.listening.transcript import heard_in, phrase_error_rate
from kokoro_nb.listening.waveform import Signal
from kokoro_nb.studies.waveform_spectrum import PACKAGE, PATCHED
from kokoro_nb.studies.whisper.audible_faults import FAULTS, HARMLESS
from kokoro_nb.studies.whisper.phrase_versions import Signals
from kokoro_nb.studies.whisper.transcripts import Listening


@dataclass(frozen=True, eq=False)
class FaultStudy:
    """Who notices which fault.

    Attributes
    ----------
    audio : dict of str to sequence of numpy.ndarray
        The package's own, then by fault the first phrases with it.
    noticing : dict of str to tuple of str
        By fault, the measures that notice it: see `noticed_by`.
    measures : dict of str to list of dict
        By fault, the figures of each phrase: see `measured`.
    errors : dict of str to float
        By fault, the word error rate; NaN without a recogniser.
    plain : float
        The word error rate without a fault.
    """

    audio: Mapping[str, Signals]
    noticing: Mapping[str, tuple[str, ...]]
    measures: Mapping[str, list[dict[str, float]]]
    errors: Mapping[str, float]
    plain: float

    def recognised(self, name: str) -> str:
        """Return whether the recogniser notices the fault `name`."""
        if np.isnan(self.plain):
            return "not asked"
        return "notices" if self.errors[name] > self.plain else "misses it"

    @property
    def only_measured(self) -> list[str]:
        """The faults that no word error shows."""
        return [name for name in self.noticing if self.recognised(name) == "misses it"]

    @property
    def only_heard(self) -> list[str]:
        """The faults that word errors show and no measure does."""
        return [name for name, found in self.noticing.items() if self.recognised(name) == "notices" and not found]

    @property
    def playable(self) -> dict[str, np.ndarray]:
        """The first phrase without a fault and with each, where it is finite."""
        return {name: audio[0] for name, audio in self.audio.items() if np.isfinite(audio[0]).all()}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each fault."""
        return [
            {"fault": name, "ear": self.recognised(name), "WER": self.errors[name]}
            | {"numbers": ", ".join(found) or "miss it"}
            | {"SNR (dB)": np.median([one["SNR"] for one in self.measures[name]])}
            | {"log-spectral distance (dB)": np.median([one["log-spectral distance"] for one in self.measures[name]])}
            for name, found in self.noticing.items()
        ]


def known_faults(model: KModel, heard: Listening, count: int) -> FaultStudy:
    """Make each of `FAULTS` in the first `count` phrases, and measure and transcribe what comes of it.

    A measure notices a fault where it is further from the package's audio than the patched decoder in eager float32
    and in float64 are: see `noticed_by`.
    """
    versions = heard.versions
    cases, references, texts = versions.cases[:count], versions.package[:count], versions.texts[:count]
    count = len(cases)

    def figures(audio: Signals) -> list[dict[str, float]]:
        return [measured(one, other, versions.sr) for one, other in zip(references, audio, strict=True)]

    def error_rate(audio: Signals) -> float:
        if heard.recogniser is None:
            return float("nan")
        return phrase_error_rate(texts, heard_in(heard.recogniser, audio, versions.sr))

    healthy = [one for audio in (versions.audio[PATCHED], versions.exact) for one in figures(audio[:count])]
    audio = {name: [make(model, case) for case in cases] for name, make in (FAULTS | HARMLESS).items()}
    measures = {name: figures(faulty) for name, faulty in audio.items()}
    return FaultStudy(
        {PACKAGE: references, **audio},
        {name: noticed_by(healthy, found) for name, found in measures.items()},
        measures,
        {name: error_rate(faulty) for name, faulty in audio.items()},
        phrase_error_rate(texts, heard.heard[PACKAGE][:count]) if heard.heard else float("nan"),
    )


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
