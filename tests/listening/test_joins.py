import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening.joins import joins, short_time_level

SR = 24_000
TIME = np.arange(SR // 2) / SR


def _tone(phase=0.0):
    """Return half a second of 200 Hz that begins and ends in silence, but for the last 20 ms at full level."""
    return np.sin(2 * np.pi * 200 * TIME + phase).astype(np.float32)


def _hushed(y):
    ramp = np.clip(np.minimum(TIME, TIME[::-1]) / 0.05, 0, 1)
    return (y * ramp).astype(np.float32)


def test_the_level_is_that_of_a_sine():
    level = short_time_level(0.5 * _tone(), SR)
    assert level.size == 500
    assert level[250] == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=1e-6)  # two whole periods in 10 ms
    assert np.isneginf(short_time_level(np.zeros(SR // 10), SR)).all()


def test_silence_at_a_join_has_no_phase_to_break():
    pieces = [_hushed(_tone()), _hushed(_tone(1.0))]
    (found,) = joins(pieces, np.concatenate(pieces), SR)
    assert found.at == 0.5
    assert found.level < -20
    assert found.sharpness < 1


def test_a_step_is_a_click_and_a_tone_that_goes_on_is_none():
    pieces = [_tone(), _tone(np.pi / 2)]  # from 0 to 1 within a sample
    (found,) = joins(pieces, np.concatenate(pieces), SR)
    assert found.level > -3
    assert found.sharpness > 50  # away from it: (2 pi 200 / 24000)^2 = 0.0027
    (found,) = joins([pieces[0][:5000], pieces[0][5000:]], pieces[0], SR)
    assert found.sharpness == pytest.approx(1, rel=1e-3)


def test_bad_input():
    with pytest.raises(InputError, match="give its own"):
        joins([_tone()], _tone()[:-1], SR)
    with pytest.raises(InputError, match="no speech between"):
        joins([np.zeros(100), np.zeros(100)], np.zeros(200), SR)
    assert joins([_tone()], _tone(), SR) == ()
