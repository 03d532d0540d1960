import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.waveform_spectrum import CUSTOM, FLOOR, PACKAGE, PATCHED, versions


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
