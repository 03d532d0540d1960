from dataclasses import replace

import numpy as np

from kokoro_nb.listening.spectrum import spectral_flatness
from kokoro_nb.studies.patching.conditioning import conditioning

FRAMES = 12


def test_kinds_of_noise(narrow, narrow_case):
    found = {kind: conditioning(narrow.model, narrow_case, kind, FRAMES) for kind in ("gaussian", "signal", "zero")}
    assert not found["zero"].added.any()
    assert found["signal"].added.any()
    assert spectral_flatness(found["gaussian"].added) > spectral_flatness(found["signal"].added)
    assert found["signal"].rms <= found["gaussian"].rms
    assert replace(found["signal"], added=30 * found["signal"].added).rms > found["gaussian"].rms
    for row in found.values():
        assert row.added.shape == (600 * FRAMES,)
        assert np.isfinite(row.floor.snr_db)
