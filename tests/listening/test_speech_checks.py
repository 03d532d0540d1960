"""Each audible check passes on the same speech and turns red on the fault that it is for, and on no other's."""

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening.speech_checks import flat_tops, phase_noise, speech_checks

SR = 24_000
FRAMES = [20, 20, 10, 20, 10]  # of 600 samples; the last one a pad
NAMES = ["durations", "level", "lag", "pause floor", "clipping", "phase noise", "9th harmonic", "tail"]


def _spoken(phase=0.0, harmonics=12):
    """Return 2 s: a vowel of 150 Hz with equal harmonics, a pause in the third token, and nothing in the last."""
    time = np.arange(sum(FRAMES) * 600) / SR
    draw = np.random.default_rng(0)
    shaken = np.repeat(draw.standard_normal((len(time) // 256 + 1, harmonics)), 256, axis=0)[: len(time)]
    parts = [np.sin(2 * np.pi * 150 * k * time + phase * shaken[:, k - 1]) for k in range(1, harmonics + 1)]
    gate = np.repeat([1.0, 1.0, 0.0, 1.0, 0.0], np.array(FRAMES) * 600)
    return 0.05 * np.sum(parts, axis=0) * gate


def _without_ninth():
    time = np.arange(sum(FRAMES) * 600) / SR
    gate = np.repeat([1.0, 1.0, 0.0, 1.0, 0.0], np.array(FRAMES) * 600)
    return _spoken() - 0.05 * np.sin(2 * np.pi * 1350 * time) * gate


def _noisy(token):
    found, ends = _spoken(), np.cumsum([0, *FRAMES]) * 600
    place = slice(ends[token], ends[token + 1])
    found[place] += 1e-3 * np.random.default_rng(1).standard_normal(found[place].shape)
    return found


FAULTS = {
    "level": lambda: 0.75 * _spoken(),
    "lag": lambda: np.roll(_spoken(), 7),
    "pause floor": lambda: _noisy(2),
    "clipping": lambda: np.clip(_spoken(), -0.2, 0.2),
    "phase noise": lambda: _spoken(phase=0.5),
    "9th harmonic": _without_ninth,
    "tail": lambda: _noisy(4),
}


def _failed(candidate, durations=(FRAMES, FRAMES)):
    found = speech_checks(_spoken(), candidate, SR, durations)
    assert [one.name for one in found] == NAMES
    return {one.name for one in found if one.verdict == "fail"}, found


def test_the_same_speech_passes_every_check_and_so_does_what_rounding_makes():
    failed, found = _failed(_spoken())
    assert not failed
    assert all(one.verdict == "pass" for one in found)
    assert not _failed(_spoken().astype(np.float16).astype(np.float64))[0]


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_turns_its_check_red_and_no_other(name):
    failed = _failed(FAULTS[name]())[0]
    assert name in failed
    if name in ("level", "lag", "9th harmonic"):
        others = {"9th harmonic"} if name == "level" else set()  # all partials are quieter with the level
        assert failed - others == {name}


def test_durations_that_are_off_by_one_are_red_and_the_rest_is_unknown():
    other = [20, 21, 10, 20, 10]
    found = speech_checks(_spoken(), np.concatenate([_spoken(), np.zeros(600)]), SR, (FRAMES, other))
    assert [one.verdict for one in found] == ["fail", *["unknown"] * 7]
    assert found[0].value == 1
    assert "48,600 samples cannot be laid beside 48,000" in str(found[1])


def test_what_is_not_finite_or_silent_is_unknown():
    for wrong, words in ((np.nan, "finite"), (0.0, "silent")):
        found = speech_checks(_spoken(), np.full(sum(FRAMES) * 600, wrong), SR)
        assert {one.verdict for one in found} == {"unknown"}
        assert words in found[1].reason
    with pytest.raises(InputError):
        speech_checks(_spoken()[None], _spoken(), SR)


def test_measures_on_arithmetic():
    # two rows of three at the peak, one of two that is no row
    assert flat_tops(np.array([0, 1, 1, 1, 0, -1, -1, -1, 0, 1, 1, 0.5])) == 6
    draw = np.random.default_rng(0)
    time = np.arange(200_000)
    tone = np.sin(0.2 * np.pi * time)
    shaken = np.sin(0.2 * np.pi * time + np.repeat(draw.normal(0, 0.3, 50), 4000))
    assert phase_noise(tone, shaken) == pytest.approx(0.3, rel=0.25)
