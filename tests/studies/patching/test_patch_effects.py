from dataclasses import replace

import pytest
from kokoro.custom_stft import CustomSTFT

from kokoro_nb.models import rewrites
from kokoro_nb.models.case import decode
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.studies.patching.patch_effects import LEVELS, SPECTRA, PatchEffects, patch_effect
from kokoro_nb.traces.parity import compare

FRAMES = 12
ON_PURPOSE = (*LEVELS, *SPECTRA)


@pytest.mark.parametrize("name", list(PATCHES))
def test_every_patch_keeps_its_promise_and_is_undone(narrow, narrow_case, name):
    effect = patch_effect(narrow.model, narrow_case, name, FRAMES)
    assert effect.change.of_peak <= effect.tolerance
    assert effect.undone == 0
    assert all(change <= limit for change, limit in (effect.heard if name in ON_PURPOSE else {}).values())
    assert effect.change.finite == 1


def test_patches_that_mean_to_change_the_audio_do(narrow, narrow_case):
    for name in ("custom_stft", "exact_istft", "signal_noise"):
        assert patch_effect(narrow.model, narrow_case, name, FRAMES).change.of_peak > 1e-3


def test_without_patches_the_audio_is_the_cases_own(narrow, narrow_case):
    # not bit for bit: after other tests in one process its last bit was seen to differ
    assert compare(narrow_case.tensors["audio"].numpy(), decode(narrow.model, narrow_case)).of_peak <= 1e-5


def _lifted(self, waveform):
    magnitude, phase = rewrites.stft_transform(self, waveform)
    return (magnitude**2 + 0.1).sqrt(), phase


def _louder(self, *spectrum):
    return 1.3 * rewrites.stft_inverse(self, *spectrum)


@pytest.mark.parametrize(
    ("name", "planted", "what"),
    [
        ("sqrt_epsilon", (CustomSTFT, "transform", _lifted), "spectrum"),
        ("exact_istft", (CustomSTFT, "inverse", _louder), "level"),
    ],
)
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
