import numpy as np
import pytest

from kokoro_nb.models.patches import PATCHES
from kokoro_nb.numerics.effects import decode, patch_effect

FRAMES = 12


@pytest.mark.parametrize("name", list(PATCHES))
def test_every_patch_keeps_its_promise_and_is_undone(narrow, narrow_case, name):
    effect = patch_effect(narrow.model, narrow_case, name, FRAMES)
    assert effect.within_tolerance
    assert effect.undone == 0
    assert effect.change.finite == 1


def test_patches_that_mean_to_change_the_audio_do(narrow, narrow_case):
    for name in ("custom_stft", "exact_istft", "signal_noise"):
        assert patch_effect(narrow.model, narrow_case, name, FRAMES).change.of_peak > 1e-3


def test_without_patches_the_audio_is_the_cases_own(narrow, narrow_case):
    assert np.array_equal(decode(narrow.model, narrow_case), narrow_case.tensors["audio"].numpy())
