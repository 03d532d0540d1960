"""04: how each version of one utterance sounds, measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from kokoro.model import KModel

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum
from kokoro_nb.listening.comparison import Comparison, compare_audio
from kokoro_nb.listening.judges import PerceivedQuality, perceived_quality
from kokoro_nb.listening.waveform import rms
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import Case, decode
from kokoro_nb.studies.decoder import decoder_part

PACKAGE, CUSTOM, PATCHED = "package", "custom_stft only", "eager"
FLOOR = "eager-float64"  # differs from `PATCHED` by rounding alone
BEST = {"PESQ": 4.64, "STOI": 1.0}  # of the reference itself
# PESQ: what a listening test with some thirty people hardly resolves; STOI: about one word in a hundred
LEAST = {"PESQ": 0.1, "STOI": 0.01}


@dataclass(frozen=True)
class JudgedVersions:
    """The judges' figures against one reference.

    Attributes
    ----------
    versions, controls : mapping
        By name; the controls are the reference with noise as loud as itself, and the reference backwards.
    """

    versions: Mapping[str, PerceivedQuality]
    controls: Mapping[str, PerceivedQuality]

    @property
    def unjudged(self) -> dict[str, str]:
        """Why a judge can reject nothing, as the end of a sentence, of each that cannot."""
        reason, rounding = self.versions[FLOOR].reason, self.lost(FLOOR)
        if reason:
            return dict.fromkeys(LEAST, reason)
        return {
            judge: f"rounding alone loses {rounding[judge]:.3g}, and no more than {limit:.3g} may be lost"
            for judge, limit in self._limits().items()
            if not spectrum.is_judged(rounding[judge], limit)
        }

    @property
    def limits(self) -> dict[str, float]:
        """By how much a version may be below the best figure: `LEAST`, or twice what rounding costs; see `unjudged`.

        Never more than half of what the better of the controls loses: a fault that spoils the version that differs by
        rounding alone as well must not raise its own limit.
        """
        return {judge: limit for judge, limit in self._limits().items() if judge not in self.unjudged}

    def _limits(self) -> dict[str, float]:
        rounding, bad = self.lost(FLOOR), [self.lost(name) for name in self.controls]
        most = {judge: np.min([one[judge] for one in bad]) / 2 for judge in LEAST}
        return {
            judge: float(np.maximum(least, np.minimum(2 * rounding[judge], most[judge])))
            for judge, least in LEAST.items()
        }

    def lost(self, name: str) -> dict[str, float]:
        """Return by how much a version or control is below the best figure of each judge; NaN where there is none."""
        found = {**self.versions, **self.controls}[name]
        return {"PESQ": BEST["PESQ"] - found.pesq, "STOI": BEST["STOI"] - found.stoi}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each version and each control."""
        return [{"version": name, **one.as_dict()} for name, one in {**self.versions, **self.controls}.items()]


ViewKind = Literal["stft", "f0"]


@dataclass(frozen=True, eq=False)
class SignalView:
    """Named signals to be drawn together: ``stft`` is of two, the reference first."""

    kind: ViewKind
    names: tuple[str, ...]
    signals: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Versions:
    """All versions of one utterance.

    Attributes
    ----------
    audio : dict of str to numpy.ndarray, shape (600 * frames,), float32
        24 kHz, full scale 1, by the version's name: ``package`` first, then the others in order.
    missing : tuple of SurveyRow
        The backends of which there is no version: absent here, or with the failure of the export.
    sr : int
        Sampling rate in Hz.
    """

    audio: Mapping[str, np.ndarray]
    missing: tuple[SurveyRow, ...]
    sr: int = SAMPLE_RATE

    def compared(self, reference: str, names: Sequence[str] = ()) -> dict[str, Comparison]:
        """Compare the versions `names`, or all others, with the version `reference`."""
        names = names or [name for name in self.audio if name != reference]
        first = self.audio[reference]
        return {name: compare_audio(first, self.audio[name], self.sr, (reference, name)) for name in names}

    def band_energies(self, reference: str) -> dict[str, dict[str, float]]:
        """Return the energy of every other version over that of `reference`, dB, for each of `spectrum.BANDS`."""
        first, heads = self.audio[reference], [f"{low / 1000:g}–{high / 1000:g} kHz" for low, high in spectrum.BANDS]
        ratios = {name: spectrum.band_energy_ratio_db(first, y, self.sr).tolist() for name, y in self.audio.items()}
        return {name: dict(zip(heads, each, strict=True)) for name, each in ratios.items() if name != reference}

    def spectrum_limit(self, reference: str) -> float:
        """Return how far from `reference` the spectrum of a version may be, dB, for what rounding does to it."""
        return spectrum.rounding_limit(self._rounding(reference))

    def spectrum_unjudged(self, reference: str) -> str:
        """Return why no spectrum can be held to `spectrum_limit`, as the end of a sentence; '' where it can."""
        rounding = self._rounding(reference)
        if spectrum.is_judged(rounding, self.spectrum_limit(reference)):
            return ""
        return f"rounding alone moves it by {rounding:.2f} dB, nearly as far as noise is from noise"

    def _rounding(self, reference: str) -> float:
        return spectrum.log_spectral_distance(self.audio[reference], self.audio[FLOOR])

    def judged(self, reference: str) -> JudgedVersions:
        """Let PESQ and STOI compare every other version with `reference`; what rounding costs is that of `FLOOR`."""
        first = self.audio[reference].astype(np.float64)
        noise = np.random.default_rng(0).normal(0, rms(first), first.size) if np.isfinite(first).all() else first
        controls = {"noise at 0 dB (control)": first + noise, "backwards (control)": first[::-1]}
        versions, bad = (
            {name: perceived_quality(first, y, self.sr) for name, y in some.items() if name != reference}
            for some in (self.audio, controls)
        )
        return JudgedVersions(versions, bad)

    def view(self, kind: ViewKind, *names: str) -> SignalView:
        """Return the versions `names`, or all, to be drawn as `kind`.

        Raises
        ------
        InputError
            If a version of that name was not made.
        """
        unknown = [name for name in names if name not in self.audio]
        if unknown:
            raise InputError(f"There is no version '{unknown[0]}'; there are {', '.join(self.audio)}.")
        names = names or tuple(self.audio)
        return SignalView(kind, names, tuple(self.audio[name] for name in names))


def versions(model: KModel, case: Case, rows: Sequence[SurveyRow], frames: int | None = None) -> Versions:
    """Return the audio of an utterance by the package, with its `CustomSTFT` alone, and by each row of a survey.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    rows : sequence of SurveyRow
        Of the whole decoder on `PATCHED`, on `FLOOR` and on runtimes.
    frames : int, optional
        How much of it, 40 to the second; all by default.
    """
    audio = {PACKAGE: decode(model, case, (), frames), CUSTOM: decode(model, case, ("custom_stft",), frames)}
    taken = {row.backend: row.climb.outputs for row in rows if row.climb and row.climb.outputs}
    audio |= {name: outputs["output"].reshape(-1).astype(np.float32) for name, outputs in taken.items()}
    return Versions(audio, tuple(row for row in rows if row.backend not in taken))
