"""01: what has to change before Kokoro can be exported, and what each change costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from kokoro.model import KModel

from kokoro_nb.models import noise
from kokoro_nb.models.case import Case, decode
from kokoro_nb.studies.patching.conditioning import noise_kinds
from kokoro_nb.studies.patching.patch_effects import patch_effects
from kokoro_nb.studies.patching.stft_gap import stft_gaps
from kokoro_nb.traces.parity import Parity, compare
from kokoro_nb.traces.statistics import Statistics, describe


@dataclass(frozen=True)
class CutStatistics:
    """Statistics of every tensor of a case, by its name."""

    tensors: Mapping[str, Statistics]

    @property
    def finite(self) -> float:
        """The smallest share of finite elements, 0 to 1."""
        return float(np.min([one.finite for one in self.tensors.values()]))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each cut."""
        return [
            {
                "cut": name,
                "shape": str(one.shape),
                "dtype": one.dtype,
                "minimum": one.minimum,
                "maximum": one.maximum,
                "finite": one.pattern,
            }
            for name, one in self.tensors.items()
        ]


def cuts(case: Case) -> CutStatistics:
    """Measure every tensor of `case`."""
    return CutStatistics({name: describe(tensor.numpy()) for name, tensor in case.tensors.items()})


SITES = ("initial_phase", "harmonic", "branch")


def redrawn_noise(model: KModel, case: Case, frames: int) -> dict[str, Parity]:
    """Return how the audio changes when the noise of one site (a field of `noise.Noise`) is drawn again, by site."""
    other, own = noise.draw(frames, case.seed + 1), decode(model, case, frames=frames)
    drawn = {site: replace(case.noise(frames), **{site: getattr(other, site)}) for site in SITES}
    return {site: compare(own, decode(model, case, (), frames, one)) for site, one in drawn.items()}
