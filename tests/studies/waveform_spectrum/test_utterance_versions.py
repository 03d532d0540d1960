import numpy as np
import pytest

from kokoro_nb.studies.waveform_spectrum import CUSTOM, FLOOR, PACKAGE, PATCHED, versions


def test_versions_of_one_utterance(narrow, narrow_case):
    made = versions(narrow, narrow_case, [], frames=12).audio
    assert list(made) == [PACKAGE, CUSTOM, PATCHED, FLOOR]
    assert all(audio.shape == (7200,) and audio.dtype == np.float32 for audio in made.values())
    assert not np.array_equal(made[PACKAGE], made[CUSTOM])
    assert np.std(made[PATCHED]) == pytest.approx(np.std(made[FLOOR]), rel=0.1)
