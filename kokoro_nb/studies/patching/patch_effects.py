"""What each patch does to the audio, on the same noise, and whether leaving it brings the old audio back."""

from dataclasses import dataclass

import numpy as np
from kokoro.model import KModel

from kokoro_nb.models.case import Case
from kokoro_nb.models.decoding import decode
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.traces.parity import Parity, compare


@dataclass(frozen=True)
class Effect:
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
        return self.change.of_peak <= PATCHES[self.patch].tolerance


def patch_effect(model: KModel, case: Case, name: str, frames: int | None = None) -> Effect:
    """Measure the patch `name` against the model without it, on the noise of `case`."""
    beside = PATCHES[name].requires
    without = decode(model, case, beside, frames)
    within = decode(model, case, (*beside, name), frames)
    after = decode(model, case, beside, frames)
    rms = float(np.sqrt(np.mean(within.astype(np.float64) ** 2) / np.mean(without.astype(np.float64) ** 2)))
    return Effect(name, beside, compare(without, within), rms, compare(without, after).max_error)
