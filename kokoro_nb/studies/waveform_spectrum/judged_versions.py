"""What PESQ and STOI say of every version, and of controls that they have to reject."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.listening.judges import PerceivedQuality, perceived_quality
from kokoro_nb.listening.spectrum import is_judged
from kokoro_nb.listening.waveform import rms

BEST = {"PESQ": 4.64, "STOI": 1.0}  # of the reference itself
# PESQ: what a listening test with some thirty people hardly resolves; STOI: about one word in a hundred
LEAST = {"PESQ": 0.1, "STOI": 0.01}


@dataclass(frozen=True)
class JudgedVersions:
    """The judges' figures against one reference.

    Attributes
    ----------
    reference, floor : str
        Names of the reference, and of the version that differs from it by rounding alone.
    versions, controls : mapping
        By name; the controls are the reference with noise as loud as itself, and the reference backwards.
    """

    reference: str
    floor: str
    versions: Mapping[str, PerceivedQuality]
    controls: Mapping[str, PerceivedQuality]

    @property
    def unjudged(self) -> dict[str, str]:
        """Why a judge can reject nothing, as the end of a sentence, of each that cannot."""
        reason, rounding = self.versions[self.floor].reason, self.lost(self.floor)
        if reason:
            return dict.fromkeys(LEAST, reason)
        return {
            judge: f"rounding alone loses {rounding[judge]:.3g}, and no more than {limit:.3g} may be lost"
            for judge, limit in self._limits().items()
            if not is_judged(rounding[judge], limit)
        }

    @property
    def limits(self) -> dict[str, float]:
        """By how much a version may be below the best figure: `LEAST`, or twice what rounding costs; see `unjudged`.

        Never more than half of what the better of the controls loses: a fault that spoils the version that differs by
        rounding alone as well must not raise its own limit.
        """
        unjudged = self.unjudged
        return {judge: limit for judge, limit in self._limits().items() if judge not in unjudged}

    def _limits(self) -> dict[str, float]:
        rounding, bad = self.lost(self.floor), [self.lost(name) for name in self.controls]
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


def judged_versions(audio: Mapping[str, np.ndarray], sr: int, reference: str, floor: str) -> JudgedVersions:
    """Let the judges compare all of `audio`, (samples,) float32 by name, at `sr` Hz, with the version `reference`."""
    first = audio[reference].astype(np.float64)
    noise = np.random.default_rng(0).normal(0, rms(first), first.size) if np.isfinite(first).all() else first
    controls = {"noise at 0 dB (control)": first + noise, "backwards (control)": first[::-1]}
    versions, bad = (
        {name: perceived_quality(first, y, sr) for name, y in some.items() if name != reference}
        for some in (audio, controls)
    )
    return JudgedVersions(reference, floor, versions, bad)
