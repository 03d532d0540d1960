"""Which of the three random draws of the source can be heard."""

from dataclasses import replace

from kokoro.model import KModel

from kokoro_nb.models import noise
from kokoro_nb.models.case import Case, decode
from kokoro_nb.traces.parity import Parity, compare

SITES = ("initial_phase", "harmonic", "branch")


def redrawn_noise(model: KModel, case: Case, frames: int) -> dict[str, Parity]:
    """Return how the audio changes when the noise of one site (a field of `noise.Noise`) is drawn again, by site."""
    other, own = noise.draw(frames, case.seed + 1), decode(model, case, frames=frames)
    drawn = {site: replace(case.noise(frames), **{site: getattr(other, site)}) for site in SITES}
    return {site: compare(own, decode(model, case, (), frames, one)) for site, one in drawn.items()}
