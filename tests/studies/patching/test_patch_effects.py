import pytest

from kokoro_nb.models.decoding import decode
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.studies.patching.patch_effects import patch_effect
from kokoro_nb.traces.parity import compare

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
    # not bit for bit: after other tests in one process its last bit was seen to differ
    assert compare(narrow_case.tensors["audio"].numpy(), decode(narrow.model, narrow_case)).of_peak <= 1e-5
