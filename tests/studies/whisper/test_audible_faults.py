import numpy as np
import pytest

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import decode
from kokoro_nb.studies.whisper.audible_faults import FAULTS, HARMLESS, LOST


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
