"""01: what has to change before Kokoro can be exported, and what each change costs."""

from dataclasses import replace

from kokoro.model import KModel

from kokoro_nb.models import noise
from kokoro_nb.models.case import Case, decode
from kokoro_nb.studies.patching.conditioning import noise_kinds
from kokoro_nb.studies.patching.patch_effects import patch_effects
from kokoro_nb.studies.patching.stft_gap import stft_gaps
from kokoro_nb.traces.statistics import Parity, compare, describe


def redrawn_noise(model: KModel, case: Case, frames: int, site: str) -> Parity:
    """Return how the audio changes when the noise of one site (a field of `noise.Noise`) is drawn again."""
    other = noise.draw(frames, case.seed + 1)
    drawn = replace(case.noise(frames), **{site: getattr(other, site)})
    return compare(decode(model, case, frames=frames), decode(model, case, (), frames, drawn))
