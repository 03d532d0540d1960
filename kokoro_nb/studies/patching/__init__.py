"""01: what has to change before Kokoro can be exported, and what each change costs."""

from kokoro_nb.studies.patching.case_cuts import cuts
from kokoro_nb.studies.patching.conditioning import noise_kinds
from kokoro_nb.studies.patching.patch_effects import patch_effects
from kokoro_nb.studies.patching.redrawn_noise import redrawn_noise
from kokoro_nb.studies.patching.stft_gap import stft_gaps

__all__ = ["cuts", "noise_kinds", "patch_effects", "redrawn_noise", "stft_gaps"]
