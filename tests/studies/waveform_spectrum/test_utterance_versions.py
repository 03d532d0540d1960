"""PESQ and STOI over the versions of 04: rounding passes, and what is heard does not."""

import numpy as np
import pytest
from training.espeak import speak

from kokoro_nb.listening.spectrum import UNRELATED
from kokoro_nb.studies.waveform_spectrum import FLOOR, PATCHED, Versions
from tests.refusals import refused


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
    refused("no version 'tvm'", small.view, "stft", PATCHED, "tvm")

    assert small.spectrum_limit(PATCHED) == pytest.approx(2 * 20 * np.log10(1.01), rel=1e-3)


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


@pytest.mark.parametrize(("loudness", "judges"), [(0.001, ["PESQ", "STOI"]), (0.1, ["STOI"]), (1.0, [])])
def test_a_judge_that_rejects_what_rounding_does_says_so(own, loudness, judges):
    rounded = own + np.random.default_rng(2).normal(0, loudness * np.std(own), own.size)
    judged = Versions({PATCHED: own, FLOOR: rounded, "onnxruntime": own[::-1]}, {}).judged(PATCHED)
    assert list(judged.limits) == judges
    assert sorted([*judged.limits, *judged.unjudged]) == ["PESQ", "STOI"]
    assert all("rounding alone loses" in why for why in judged.unjudged.values())
    assert all(judged.lost("onnxruntime")[judge] > limit for judge, limit in judged.limits.items())


def test_a_fault_of_every_version_does_not_raise_its_own_limit(own):
    spoilt = own[::-1].copy()
    judged = Versions({PATCHED: own, FLOOR: spoilt, "onnxruntime": spoilt}, {}).judged(PATCHED)
    lost = judged.lost("onnxruntime")
    assert not any(lost[judge] <= limit for judge, limit in judged.limits.items())
    assert sorted(judged.unjudged) == ["PESQ", "STOI"], "it is no pass, and says why"


def test_what_is_too_short_is_no_figure(own):
    judged = _judged(own[:6000], own[:6000])
    assert (judged.limits, set(judged.unjudged.values())) == ({}, {"it is shorter than 0.5 s"})
