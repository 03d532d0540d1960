"""What each patch does to the audio, on the same noise, and whether leaving it brings the old audio back.

A patch that claims how much it changes the samples is held to that. One that changes them on purpose is held to what it
must leave alone: the level, and where its change is too small to be heard, the spectrum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from kokoro.model import KModel

from kokoro_nb.listening.spectrum import TRANSPARENT, log_spectral_distance
from kokoro_nb.listening.waveform import rms, rms_ratio_db
from kokoro_nb.models.case import Case, decode
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.traces.statistics import Parity, compare

HEARD = 1.0  # dB: the least difference in level that is heard
# the inverse of custom_stft counts inner bins once in place of twice (1/2) and leaves the sum of the squared windows,
# 3/2: every bin is 3/4 to 3/2 of what it should be
INVERSE = float(20 * np.log10(3 / 2))
LEVELS: Mapping[str, float] = {
    "signal_noise": HEARD,
    "custom_stft": INVERSE,
    "exact_istft": HEARD,
    "sqrt_epsilon": INVERSE,  # stands on custom_stft; what it adds itself is in the spectrum
    "ramped_phase": HEARD,
}
SPECTRA: Mapping[str, float] = {"sqrt_epsilon": TRANSPARENT}


@dataclass(frozen=True)
class PatchEffect:
    """The measured effect of one patch.

    Attributes
    ----------
    patch : str
        Its name.
    beside : tuple of str
        Patches that were on both with it and without it, because it needs them.
    change : Parity
        The audio with it against the audio without it.
    rms_ratio : float
        Root mean square with it over without it.
    undone : float
        Largest difference of the audio before the patch to the audio after leaving it; 0 is bit-exact.
    level : float
        Root mean square with it over that of the unpatched model, dB.
    spectrum : float
        Log-spectral distance to the audio without it, dB.
    """

    patch: str
    beside: tuple[str, ...]
    change: Parity
    rms_ratio: float
    undone: float
    level: float
    spectrum: float

    @property
    def tolerance(self) -> float:
        """What the patch claims to change at most, of the peak; infinite where it changes the samples on purpose."""
        return PATCHES[self.patch].tolerance

    @property
    def heard(self) -> dict[str, tuple[float, float]]:
        """Of a patch that changes the samples on purpose: what it must leave alone -> figure and limit, dB."""
        found = {"level": (abs(self.level), LEVELS[self.patch])} if self.patch in LEVELS else {}
        return found | ({"spectrum": (self.spectrum, SPECTRA[self.patch])} if self.patch in SPECTRA else {})


@dataclass(frozen=True)
class PatchEffects:
    """The measured effects of all patches, and of having applied and left all of them.

    Attributes
    ----------
    effects : tuple of PatchEffect
        One for each patch.
    after : float
        Largest difference of the unpatched audio before the first patch to that after the last.
    """

    effects: tuple[PatchEffect, ...]
    after: float

    @property
    def undone(self) -> float:
        """The largest difference that leaving a single patch has left."""
        return float(np.max([one.undone for one in self.effects]))

    @property
    def bounded(self) -> tuple[PatchEffect, ...]:
        """Those of the patches that claim how much they change at most."""
        return tuple(one for one in self.effects if one.tolerance < float("inf"))

    @property
    def on_purpose(self) -> tuple[PatchEffect, ...]:
        """The others, which change the samples on purpose."""
        return tuple(one for one in self.effects if one not in self.bounded)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each patch."""
        return [
            {
                "patch": one.patch,
                "change (of peak)": one.change.of_peak,
                "RMS ratio": one.rms_ratio,
                "level, of the unpatched (dB)": one.level,
                "log-spectral distance (dB)": one.spectrum,
                "undone": one.undone,
                "beside": ", ".join(one.beside),
                "needed by": ", ".join(PATCHES[one.patch].needed_by),
                "reason": PATCHES[one.patch].reason,
            }
            for one in self.effects
        ]


def patch_effects(model: KModel, case: Case, frames: int) -> PatchEffects:
    """Measure every patch of `PATCHES`, in turn."""
    own = decode(model, case, frames=frames)
    effects = tuple(patch_effect(model, case, name, frames) for name in PATCHES)
    return PatchEffects(effects, compare(own, decode(model, case, (), frames)).max_error)


def patch_effect(model: KModel, case: Case, name: str, frames: int | None = None) -> PatchEffect:
    """Measure the patch `name` against the model without it, on the noise of `case`."""
    beside = PATCHES[name].requires
    own = decode(model, case, frames=frames)
    without = decode(model, case, beside, frames)
    within = decode(model, case, (*beside, name), frames)
    after = decode(model, case, beside, frames)
    change, undone = compare(without, within), compare(without, after).max_error
    level, spectrum = rms_ratio_db(own, within), log_spectral_distance(without, within)
    return PatchEffect(name, beside, change, rms(within) / rms(without), undone, level, spectrum)
