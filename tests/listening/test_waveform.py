import math

import numpy as np
import pytest
import soundfile

from kokoro_nb.listening import waveform
from kokoro_nb.listening.waveform import (
    correlation,
    finite_fraction,
    joins,
    lag,
    max_error_of_peak,
    peak,
    percent,
    percent_finite,
    read_wav,
    rms,
    rms_ratio_db,
    short_time_level,
    snr_db,
    write_wav,
)
from tests.refusals import refused

PAIRED = (snr_db, rms_ratio_db, max_error_of_peak, correlation, lambda a, b: lag(a, b, 10))


def test_levels():
    y = np.array([0.3, -0.4, 0.0, 0.0])
    assert peak(y) == 0.4
    # sqrt((0.09 + 0.16) / 4) = 0.25
    assert rms(y) == pytest.approx(0.25)
    assert math.isnan(peak(np.array([0.1, np.nan])))
    broken = np.array([1.0, np.nan, np.inf, -np.inf])
    assert (finite_fraction(broken), percent_finite(broken)) == (0.25, "25 % finite")


def test_one_bad_sample_never_reads_as_100_percent():
    y = np.ones(1_000_000)
    assert percent_finite(y) == "100 % finite"
    y[5] = np.nan
    assert percent_finite(y) == "99.99 % finite"
    assert [percent(one) for one in (1e-6, 0.5, 1.25)] == ["0.0001 %", "50 %", "125 %"]


def test_half_the_amplitude(voice):
    from scipy.stats import pearsonr

    reference = np.array([1.0, -2.0, 3.0, 0.0])
    candidate = reference / 2
    # the error is half the reference, a quarter of its power: 10 log10(4) = 6.02
    assert snr_db(reference, candidate) == pytest.approx(6.0206, abs=1e-4)
    assert rms_ratio_db(reference, candidate) == pytest.approx(-6.0206, abs=1e-4)
    assert max_error_of_peak(reference, candidate) == 0.5
    other = np.roll(voice, 7)
    assert correlation(voice, other) == pytest.approx(pearsonr(voice, other).statistic, abs=1e-12)


def test_lag_is_positive_for_a_late_candidate_and_looks_no_further_than_is_said(voice):
    assert [lag(voice, np.roll(voice, shift), 60) for shift in (-40, 0, 3)] == [-40, 0, 3]
    assert abs(lag(voice, np.roll(voice, 40), 39)) <= 39
    refused("A lag of -1 samples cannot be looked for in 24000; give 0 to 23999", lag, voice, voice, -1)


def test_silence_and_constants(voice):
    zero, constant = np.zeros_like(voice), np.full_like(voice, 0.1)
    assert snr_db(zero, voice) == rms_ratio_db(voice, zero) == -math.inf
    assert snr_db(voice, zero) == 0, "the error is the whole reference"
    assert snr_db(zero, zero) == rms_ratio_db(zero, voice) == max_error_of_peak(zero, voice) == math.inf
    for nothing in (rms_ratio_db(zero, zero), max_error_of_peak(zero, zero), lag(voice, zero, 5)):
        assert math.isnan(nothing)
    assert math.isnan(correlation(voice, constant))


@pytest.mark.parametrize("metric", PAIRED)
def test_what_is_not_finite_is_nan_on_either_side_and_lengths_must_agree(metric, voice):
    broken = voice.copy()
    broken[100] = np.inf
    for pair in ((voice, broken), (broken, voice), (broken, broken)):
        assert math.isnan(metric(*pair))
    refused("23999 samples and the candidate 24000", metric, voice[:-1], voice)


@pytest.mark.parametrize(
    ("y", "message"),
    [(np.zeros((2, 5)), r"shape \(2, 5\)"), (np.zeros(0), "is empty"), (np.zeros(5, dtype=np.int16), "holds int16")],
)
def test_what_is_no_signal_is_refused(y, message):
    refused(message, peak, y)


def test_wav_keeps_every_sample(tmp_path):
    y = np.array([0.5, -1e9, np.nan, np.inf, -np.inf, 1 + 2**-23, 1e-40], dtype=np.float32)
    path = write_wav(tmp_path / "new" / "y.wav", y, 24_000)
    back, sr = read_wav(path)
    assert (sr, back.dtype) == (24_000, np.float32)
    assert np.array_equal(back.view(np.uint32), y.view(np.uint32))
    # the control: 16-bit PCM hides the fault
    soundfile.write(tmp_path / "pcm.wav", y[:2], 24_000, subtype="PCM_16")
    assert peak(read_wav(tmp_path / "pcm.wav")[0]) == 1


def test_files_that_are_refused(tmp_path, monkeypatch):
    refused("exceeds the range", write_wav, tmp_path / "y.wav", np.array([1e39]), 24_000)
    refused("is no sample rate", write_wav, tmp_path / "y.wav", np.ones(3), 24_000.5)
    refused("There is no sound file", read_wav, tmp_path / "absent.wav")
    (tmp_path / "text.wav").write_text("no sound")
    refused("cannot be read as a sound file", read_wav, tmp_path / "text.wav")
    soundfile.write(tmp_path / "stereo.wav", np.zeros((10, 2)), 24_000)
    monkeypatch.setattr(waveform, "LONGEST", 19)  # 10 samples of 2 channels
    refused(r"claims to have 10 samples; give a sound of at most 19\.", read_wav, tmp_path / "stereo.wav")
    monkeypatch.setattr(waveform, "LONGEST", 20)
    refused("has 2 channels", read_wav, tmp_path / "stereo.wav")


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


def test_pieces_that_have_no_joins_are_refused():
    refused("give its own", joins, [_tone()], _tone()[:-1], SR)
    refused("no speech between", joins, [np.zeros(100), np.zeros(100)], np.zeros(200), SR)
    assert joins([_tone()], _tone(), SR) == ()
