"""Drawings of 04."""

from typing import Any

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.reporting import curves, figures
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.studies.waveform_spectrum import BandEnergies, SignalView

_PAIRS: dict[str, tuple[Any, str]] = {
    "waveforms": (figures.waveforms, "Waveforms"),
    "mel": (figures.mel_spectrograms, "Mel spectrograms"),
    "stft": (figures.stft_spectrograms, "STFT spectrograms"),
}


@drawn.register
def _bands(result: BandEnergies, label: str, caption: str) -> Any:
    title = caption or f"Band energy against {result.reference}"
    return figures.band_energy_bars(result.ratios, title=title, weights=label)


@drawn.register
def _view(result: SignalView, label: str, caption: str) -> Any:
    if result.kind == "f0":
        signals = dict(zip(result.names, result.signals, strict=True))
        return curves.f0_contours(signals, SAMPLE_RATE, caption or "Fundamental frequency", label)
    draw, title = _PAIRS[result.kind]
    return draw(*result.signals, SAMPLE_RATE, result.names, caption or title, label)
