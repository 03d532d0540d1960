from dataclasses import replace

import numpy as np
import pytest
from kokoro.custom_stft import CustomSTFT

from kokoro_nb.models import rewrites
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.studies.patching.patch_effects import LEVELS, SPECTRA, PatchEffects, patch_effect
from kokoro_nb.studies.patching.stft_gap import stft_gap

FRAMES = 12
ON_PURPOSE = (*LEVELS, *SPECTRA)


def _lifted(self, waveform):
    magnitude, phase = rewrites.stft_transform(self, waveform)
    return (magnitude**2 + 0.1).sqrt(), phase


def _louder(self, *spectrum):
    return 1.3 * rewrites.stft_inverse(self, *spectrum)


SPOILT = ("sqrt_epsilon", (CustomSTFT, "transform", _lifted), "spectrum")
LOUDER = ("exact_istft", (CustomSTFT, "inverse", _louder), "level")


@pytest.mark.parametrize(("name", "planted", "what"), [SPOILT, LOUDER])
def test_what_changes_the_samples_on_purpose_must_not_be_heard(narrow, narrow_case, monkeypatch, name, planted, what):
    kept = tuple(one for one in PATCHES[name].rewrites if one[:2] != planted[:2])
    monkeypatch.setitem(PATCHES, name, replace(PATCHES[name], rewrites=(*kept, planted)))
    effect = patch_effect(narrow.model, narrow_case, name, FRAMES)
    assert effect.tolerance == float("inf"), "its change is not judged"
    figure, limit = effect.heard[what]
    assert figure > limit


def test_every_patch_is_held_to_a_figure(narrow, narrow_case):
    names = ("plane_blocks", *ON_PURPOSE)
    effects = PatchEffects(tuple(patch_effect(narrow.model, narrow_case, name, 4) for name in names), 0.0)
    assert [one.patch for one in effects.bounded] == ["plane_blocks"]
    assert [one.patch for one in effects.on_purpose] == list(ON_PURPOSE)
    assert all(one.heard for one in effects.on_purpose)
    assert {name for name, patch in PATCHES.items() if patch.tolerance == float("inf")} == set(ON_PURPOSE)


def test_level_of_the_plain_inverse():
    # inner bins are counted once in place of twice (1/2), and Hann squared at a quarter hop adds up to 3/2: 3/4
    tone = np.sin(2 * np.pi * 5 / 20 * np.arange(4000)).astype(np.float32)  # bin 5 of 20, neither first nor last
    assert stft_gap(tone).inverse_rms_ratio == pytest.approx(0.75, rel=0.01)
