"""How the kind of source noise decides what a comparison of waveforms can show at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.listening.spectrum import spectral_flatness
from kokoro_nb.models import noise, stages
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.statistics import Parity, compare, describe

KINDS = ("gaussian", "signal", "tonal", "zero")


@dataclass(frozen=True)
class Conditioning:
    """One kind of source noise.

    Attributes
    ----------
    kind : str
        ``gaussian``, ``tonal`` and ``zero`` as in `noise.draw`; ``signal`` is the patch ``signal_noise``.
    added : numpy.ndarray, shape (samples,), float32
        The noise of the fundamental as the source adds it, scaled by voicing.
    floor : Parity
        Decoder in float32 against float64, both eager.
    """

    kind: str
    added: np.ndarray
    floor: Parity

    @property
    def flatness(self) -> float:
        """Spectral flatness of the noise, 0 to 1."""
        return spectral_flatness(self.added)

    @property
    def rms(self) -> float:
        """Root mean square of the noise as it is added; full scale is 1."""
        return describe(self.added).rms


@dataclass(frozen=True)
class NoiseKinds:
    """Every kind of source noise, by its name."""

    kinds: Mapping[str, Conditioning]

    def __getitem__(self, kind: str) -> Conditioning:
        return self.kinds[kind]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each kind."""
        return [
            {
                "noise": one.kind,
                "RMS": one.rms,
                "spectral flatness": one.flatness,
                "float32 to float64, SNR (dB)": one.floor.snr_db,
                "correlation": one.floor.correlation,
            }
            for one in self.kinds.values()
        ]


def noise_kinds(model: KModel, case: Case, frames: int) -> NoiseKinds:
    """Run the patched decoder with each of `KINDS`."""
    return NoiseKinds({kind: conditioning(model, case, kind, frames) for kind in KINDS})


def conditioning(model: KModel, case: Case, kind: str, frames: int) -> Conditioning:
    """Run the patched decoder with one kind of noise, in float32 and float64, and keep the noise that it added."""
    inputs = case.decoder_inputs(frames)
    names = EXPORT_PATCHES
    if kind == "signal":
        names = (*(name for name in EXPORT_PATCHES if name != "explicit_noise"), "signal_noise")
    else:
        inputs["harmonic_noise"] = noise.draw(frames, case.seed, kind).harmonic  # type: ignore[arg-type]
    seen: dict[str, np.ndarray] = {}

    def keep(_module: Any, _args: Any, output: Any) -> None:
        seen["added"] = output[2][0, :, 0].numpy()

    sines = model.decoder.generator.m_source.l_sin_gen
    with patched(model, names):
        stage = stages.DecoderStage(model.decoder)
        hook = sines.register_forward_hook(keep)
        try:
            stage(**inputs)
        finally:
            hook.remove()
        audio = {}
        for name in ("eager", "eager-float64"):
            runtime = backend(name)
            audio[name] = runtime.load(runtime.export(stage, inputs)).run(inputs)["output"]
    assert seen["added"].size == frames * SAMPLES_PER_FRAME
    return Conditioning(kind, seen["added"], compare(audio["eager-float64"], audio["eager"]))
