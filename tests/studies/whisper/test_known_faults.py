import math

import numpy as np
import pytest

from kokoro_nb.listening.comparison import FINITE, compare_audio
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import decode
from kokoro_nb.studies.whisper import FAULTS, LOST, MEASURES, noticed_by


def values(snr=60.0, off=0.1, finite=100.0):
    return dict.fromkeys(MEASURES, off) | {"SNR": snr, FINITE: finite}


HEALTHY = [values(), values(snr=50.0, off=-0.2)]


def test_a_fault_is_noticed_beyond_what_healthy_versions_have_in_every_utterance():
    assert noticed_by(HEALTHY, [values(snr=45.0, off=0.39)]) == (), "as near as healthy ones"
    assert noticed_by(HEALTHY, [values(off=-0.41)]) == tuple(name for name in MEASURES if name != "SNR")
    assert noticed_by(HEALTHY, [values(snr=43.0)]) == ("SNR",), "in its own direction"
    assert noticed_by(HEALTHY, [values(off=9.0, snr=0.0), values()]) == ()
    nothing = math.nan
    assert noticed_by(HEALTHY, [values(off=nothing, snr=nothing, finite=99.9)]) == (FINITE,)
    assert noticed_by(HEALTHY, [values(off=nothing, snr=nothing)]) == ()


def test_the_measures_are_those_of_the_comparison():
    reference = np.sin(np.arange(24_000) / 20) + 0.1 * np.random.default_rng(0).standard_normal(24_000)
    spoilt = np.where(np.arange(24_000) == 3, np.nan, reference)
    healthy, found = (compare_audio(reference, one, 24_000).as_dict() for one in (reference, spoilt))
    assert set(MEASURES) < set(healthy)
    assert noticed_by([healthy], [found]) == (FINITE,)


@pytest.fixture(scope="module")
def plain(narrow, narrow_case):
    return decode(narrow.model, narrow_case)


@pytest.fixture(scope="module")
def faulty(narrow, narrow_case):
    return {name: make(narrow.model, narrow_case) for name, make in FAULTS.items()}


@pytest.mark.parametrize("name", [*FAULTS])
def test_every_fault_changes_the_audio_and_keeps_its_length(faulty, plain, name):
    assert faulty[name].shape == plain.shape
    assert faulty[name].dtype == np.float32
    assert not np.allclose(faulty[name], plain, atol=1e-3 * np.abs(plain).max())


def test_the_model_is_left_as_it_was(faulty, narrow, narrow_case, plain):
    assert np.abs(decode(narrow.model, narrow_case) - plain).max() <= 1e-6 * np.abs(plain).max()


def test_faults_are_what_they_are_called(faulty, plain):
    assert np.array_equal(faulty["half amplitude"], 0.5 * plain)
    assert np.mean(np.abs(faulty["clipped WAV"]) == 1) > 0.01
    assert np.max(np.abs(faulty["clipped WAV"])) == 1
    lost = faulty["lost chunk"] == 0
    assert lost.sum() - (plain == 0).sum() == pytest.approx(LOST * SAMPLE_RATE, abs=2)
    assert np.array_equal(faulty["lost chunk"][~lost], plain[~lost])
    rounded = faulty["float16 throughout"]
    assert not np.isfinite(rounded).all() or np.abs(rounded - plain).max() > 0.01 * np.abs(plain).max()
