"""PESQ and STOI over the versions of 04: rounding passes, and what is heard does not."""

import numpy as np
import pytest

from kokoro_nb.studies.waveform_spectrum.utterance_versions import FLOOR, PATCHED, Versions
from kokoro_nb.training.espeak import speak


@pytest.fixture(scope="module")
def own():
    return speak("Susan falls.", "en-us", 150).audio


def _judged(own, candidate):
    rounded = (own + 1e-5 * np.random.default_rng(0).standard_normal(own.size)).astype(np.float32)
    return Versions({PATCHED: own, FLOOR: rounded, "onnxruntime": candidate}, {}).judged(PATCHED)


@pytest.mark.parametrize("fault", ["none", "noise", "gap", "nan"])
def test_what_is_heard_is_beyond_the_limit(own, fault):
    noise = np.random.default_rng(1).normal(0, 0.3 * np.std(own), own.size)
    gap = np.where((np.arange(own.size) // 3000) % 3 == 1, 0, own)
    faults = {"none": own, "noise": own + noise, "gap": gap, "nan": np.where(np.arange(own.size) == 9, np.nan, own)}
    judged = _judged(own, faults[fault])
    lost, limits = judged.lost("onnxruntime"), judged.limits
    assert [bool(lost[judge] <= limits[judge]) for judge in limits] == 2 * [fault == "none"]
    for control in judged.controls:
        assert all(judged.lost(control)[judge] > limits[judge] for judge in limits)
    assert len(judged.rows()) == 4


def test_a_fault_of_every_version_does_not_raise_its_own_limit(own):
    spoilt = own[::-1].copy()
    judged = Versions({PATCHED: own, FLOOR: spoilt, "onnxruntime": spoilt}, {}).judged(PATCHED)
    assert [bool(judged.lost("onnxruntime")[judge] <= limit) for judge, limit in judged.limits.items()] == [False] * 2


def test_what_is_too_short_is_no_figure(own):
    assert _judged(own[:6000], own[:6000]).reason == "it is shorter than 0.5 s"
