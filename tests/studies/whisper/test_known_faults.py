import math

import numpy as np
import pytest

from kokoro_nb.listening.comparison import FINITE, compare_audio
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import decode
from kokoro_nb.studies.whisper.audible_faults import FAULTS, HARMLESS, LOST
from kokoro_nb.studies.whisper.known_faults import MEASURES, FaultStudy, measured, noticed_by


def study(errors, plain):
    figures = [{"SNR": 3.0, "log-spectral distance": 2.0}, {"SNR": 5.0, "log-spectral distance": 4.0}]
    audio = {"package": [np.zeros(4)], "quiet": [np.zeros(4)], "lost": [np.array([0, np.nan])]}
    return FaultStudy(audio, {"quiet": ("RMS ratio",), "lost": ()}, dict.fromkeys(errors, figures), errors, plain)


def test_who_notices_which_fault():
    found = study({"quiet": 0.1, "lost": 0.2}, plain=0.1)
    assert (found.only_measured, found.only_heard) == (["quiet"], ["lost"])
    told = [(row["ear"], row["numbers"], row["SNR (dB)"]) for row in found.rows()]
    assert told == [("misses it", "RMS ratio", 4.0), ("notices", "miss it", 4.0)]
    assert list(found.playable) == ["package", "quiet"]


def test_without_a_recogniser_nobody_is_asked():
    found = study({"quiet": np.nan, "lost": np.nan}, plain=np.nan)
    assert {row["ear"] for row in found.rows()} == {"not asked"}
    assert found.only_measured == found.only_heard == []


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
    source = np.random.default_rng(0)
    reference = np.sin(np.arange(24_000) / 20) + 0.1 * source.standard_normal(24_000)
    candidate = 0.7 * reference + 0.05 * source.standard_normal(24_000)
    whole = compare_audio(reference, candidate, 24_000)
    for name, value in measured(reference, candidate, 24_000).items():
        assert value == pytest.approx(whole[name], rel=1e-12)
    candidate[3] = np.nan
    assert noticed_by([values()], [measured(reference, candidate, 24_000)]) == (FINITE,)


@pytest.fixture(scope="module")
def plain(narrow, narrow_case):
    return decode(narrow.model, narrow_case)


@pytest.fixture(scope="module")
def faulty(narrow, narrow_case):
    return {name: make(narrow.model, narrow_case) for name, make in (FAULTS | HARMLESS).items()}


@pytest.mark.parametrize("name", [*FAULTS, *HARMLESS])
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


def test_float16_throughout_leaves_its_range_or_its_resolution(faulty, plain):
    rounded = faulty["float16 throughout"]
    assert not np.isfinite(rounded).all() or np.abs(rounded - plain).max() > 0.01 * np.abs(plain).max()
