"""What each patch does to the audio, on the same noise, and whether leaving it brings the old audio back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from kokoro.model import KModel

from kokoro_nb.models.case import Case
from kokoro_nb.models.decoding import decode
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.traces.parity import Parity, compare


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
    """

    patch: str
    beside: tuple[str, ...]
    change: Parity
    rms_ratio: float
    undone: float

    @property
    def within_tolerance(self) -> bool:
        """Whether the change stays within what the patch claims; a NaN does not."""
        return self.change.of_peak <= self.tolerance

    @property
    def tolerance(self) -> float:
        """What the patch claims to change at most, of the peak; infinite where it claims nothing."""
        return PATCHES[self.patch].tolerance


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

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each patch."""
        return [
            {
                "patch": one.patch,
                "change (of peak)": one.change.of_peak,
                "RMS ratio": one.rms_ratio,
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
    without = decode(model, case, beside, frames)
    within = decode(model, case, (*beside, name), frames)
    after = decode(model, case, beside, frames)
    rms = float(np.sqrt(np.mean(within.astype(np.float64) ** 2) / np.mean(without.astype(np.float64) ** 2)))
    return PatchEffect(name, beside, compare(without, within), rms, compare(without, after).max_error)
