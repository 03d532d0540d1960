import math

import numpy as np
import pytest

from kokoro_nb.listening.comparison import FINITE, compare_audio
from kokoro_nb.studies.whisper.known_faults import MEASURES, measured, noticed_by


def values(snr=60.0, off=0.1, finite=100.0):
    return dict.fromkeys(MEASURES, off) | {"SNR": snr, FINITE: finite}


HEALTHY = [values(), values(snr=50.0, off=-0.2)]


def test_what_is_as_near_as_healthy_versions_is_not_noticed():
    assert noticed_by(HEALTHY, [values(snr=45.0, off=0.39)]) == ()


def test_each_measure_notices_beyond_the_margin_in_its_own_direction():
    assert noticed_by(HEALTHY, [values(off=-0.41)]) == tuple(name for name in MEASURES if name != "SNR")
    assert noticed_by(HEALTHY, [values(snr=43.0)]) == ("SNR",)


def test_a_fault_must_be_noticed_in_every_utterance():
    assert noticed_by(HEALTHY, [values(off=9.0, snr=0.0), values()]) == ()


def test_what_is_not_finite_is_noticed_by_that_alone():
    nothing = math.nan
    assert noticed_by(HEALTHY, [values(off=nothing, snr=nothing, finite=99.9)]) == (FINITE,)
    assert noticed_by(HEALTHY, [values(off=nothing, snr=nothing)]) == ()


def test_the_measures_are_those_of_the_comparison():
    source = np.random.default_rng(0)
    reference = np.sin(np.arange(24_000) / 20) + 0.1 * source.standard_normal(24_000)
    candidate = 0.7 * reference + 0.05 * source.standard_normal(24_000)
    whole = compare_audio(reference, candidate, 24_000)
    for name, value in measured(reference, candidate, 24_000).items():
        assert value == pytest.approx(whole[name], rel=1e-12)
    candidate[3] = np.nan
    assert noticed_by([values()], [measured(reference, candidate, 24_000)]) == (FINITE,)
