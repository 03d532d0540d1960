import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import UNRELATED
from kokoro_nb.studies.waveform_spectrum import CUSTOM, FLOOR, PACKAGE, PATCHED, Versions, versions


def test_versions_of_one_utterance(narrow, narrow_case):
    found = versions(narrow, narrow_case, [], frames=12)
    made = found.audio
    assert list(made) == [PACKAGE, CUSTOM, PATCHED, FLOOR]
    assert all(audio.shape == (7200,) and audio.dtype == np.float32 for audio in made.values())
    assert not np.array_equal(made[PACKAGE], made[CUSTOM])
    assert np.std(made[PATCHED]) == pytest.approx(np.std(made[FLOOR]), rel=0.1)
    assert list(found.compared(PATCHED, [FLOOR])) == [FLOOR]
    assert list(found.band_energies(PACKAGE).ratios) == [CUSTOM, PATCHED, FLOOR]
    assert found.view("waveforms", PATCHED, PATCHED).names == (PATCHED, PATCHED)
    with pytest.raises(InputError, match="no version 'tvm'"):
        found.view("mel", PATCHED, "tvm")


def test_a_spectrum_that_is_wrong_in_every_version_does_not_raise_its_own_limit():
    right, other, another = np.random.default_rng(0).normal(0, 0.1, (3, 24000)).astype(np.float32)
    made = Versions({PATCHED: right, FLOOR: other, "onnxruntime": another}, ())
    found = made.compared(PATCHED)
    floor, distance = (found[name]["log-spectral distance"] for name in (FLOOR, "onnxruntime"))
    assert distance <= 2 * floor, "it passed under twice the floor alone"
    assert distance > made.spectrum_limit(PATCHED) == UNRELATED / 2
    assert made.spectrum_unjudged(PATCHED).startswith("rounding alone moves it by 7.")
    small = Versions({PATCHED: right, FLOOR: (1.01 * right).astype(np.float32)}, ())
    assert small.spectrum_unjudged(PATCHED) == ""
    assert small.spectrum_limit(PATCHED) == pytest.approx(2 * 20 * np.log10(1.01), rel=1e-3)
