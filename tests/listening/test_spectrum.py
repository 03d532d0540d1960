import math
from functools import partial

import librosa
import numpy as np
import pytest

from kokoro_nb.listening.spectrum import (
    BANDS,
    TRANSPARENT,
    UNRELATED,
    SpectralAgreement,
    average_spectrum,
    band_energies,
    band_energy_ratio_db,
    log_spectral_distance,
    mel_cepstral_distance,
    mel_spectrogram,
    multi_resolution_stft_distance,
    power_spectrogram,
    spectral_agreement,
    spectral_flatness,
)
from tests.refusals import refused

SR = 24_000


def sine(frequency, amplitude=0.5, seconds=1.0):
    return amplitude * np.sin(2 * np.pi * frequency * np.arange(round(SR * seconds)) / SR)


@pytest.mark.parametrize(("n_fft", "hop", "win"), [(1024, 256, None), (512, 50, 240)])
def test_power_spectrogram_is_librosas(voice, n_fft, hop, win):
    expected = np.abs(librosa.stft(voice, n_fft=n_fft, hop_length=hop, win_length=win)) ** 2
    assert np.allclose(power_spectrogram(voice, n_fft, hop, win), expected, rtol=1e-9, atol=1e-9)


def test_mel_spectrogram_and_average_spectrum_are_librosas(voice):
    expected = librosa.feature.melspectrogram(y=voice, sr=SR, n_fft=1024, hop_length=256, n_mels=80, power=2.0)
    assert np.allclose(mel_spectrogram(voice, SR), expected, rtol=1e-5, atol=1e-9)
    frequencies, power = average_spectrum(voice, SR, 512)
    assert np.allclose(power, (np.abs(librosa.stft(voice, n_fft=512, hop_length=128)) ** 2).mean(axis=1), rtol=1e-9)
    assert np.array_equal(frequencies, librosa.fft_frequencies(sr=SR, n_fft=512))


def test_nan_stays_in_the_frames_that_touch_it(voice):
    broken = voice.copy()
    broken[10_000] = np.inf
    power = power_spectrogram(broken, 1024, 256)
    whole = np.isnan(power).all(axis=0)
    assert np.array_equal(whole, np.isnan(power).any(axis=0))
    # frame t covers samples 256 t - 512 up to 256 t + 511: t = 38 to 41 hold sample 10000
    assert np.flatnonzero(whole).tolist() == [38, 39, 40, 41]
    assert np.allclose(power[:, ~whole], power_spectrogram(voice, 1024, 256)[:, ~whole])


def test_band_energies_against_welch():
    from scipy.signal import welch

    y = np.random.default_rng(0).normal(0, 0.1, SR * 4)
    frequencies, density = welch(y, SR, window="hann", nperseg=2048, noverlap=1536, detrend=False)
    for (low, high), energy in zip(BANDS, band_energies(y, SR), strict=True):
        inside = (frequencies >= low) & ((frequencies < high) | (high == SR / 2))
        assert energy == pytest.approx(density[inside].sum() * SR / 2048, rel=2e-2)


def test_bands_are_arguments():
    y = sine(1000)
    # a sine of amplitude 0.5 has the mean square 0.125
    assert band_energies(y, SR, bands=((900, 1100),))[0] == pytest.approx(0.125, rel=0.05)
    for bad in ((5000, 13_000), (400, 300), (-1, 50), (1000, 1005)):
        told = f"The band {bad[0]}-{bad[1]} Hz cannot be measured at 24000 Hz; give bands within 0-12000 Hz"
        refused(told, band_energies, y, SR, bands=(bad,))


def test_band_ratio_shows_half_the_amplitude_and_a_lost_band(voice):
    # 20 log10(0.5) = -6.02
    assert band_energy_ratio_db(voice, voice / 2, SR) == pytest.approx(np.full(8, -6.0206), abs=1e-4)
    both, low = sine(200) + sine(8000), sine(200) + sine(8000, 0.05)
    ratios = dict(zip(BANDS, band_energy_ratio_db(both, low, SR), strict=True))
    assert ratios[(150, 300)] == pytest.approx(0, abs=0.01)
    assert ratios[(4800, 9600)] == pytest.approx(-20, abs=0.01)


def test_distances_of_spectra():
    noise = np.random.default_rng(0).normal(0, 0.1, SR)
    assert log_spectral_distance(noise, noise) == sum(multi_resolution_stft_distance(noise, noise)) == 0
    # a constant factor of 2 is 6.02 dB in every bin above the floor
    assert log_spectral_distance(noise, 2 * noise, floor_db=-200) == pytest.approx(6.0206, abs=1e-4)
    double = multi_resolution_stft_distance(noise, 2 * noise, floor_db=-200)
    # ||S - 2 S|| / ||S|| = 1 and |ln S - ln 2 S| = ln 2
    assert double == (pytest.approx(1), pytest.approx(math.log(2)))


def test_what_is_not_finite_is_nan(voice):
    broken = voice.copy()
    broken[50] = np.inf
    for pair in ((voice, broken), (broken, voice)):
        assert np.isnan(band_energy_ratio_db(*pair, SR)).all()
        assert math.isnan(log_spectral_distance(*pair))
        assert math.isnan(sum(multi_resolution_stft_distance(*pair)))
        assert math.isnan(mel_cepstral_distance(*pair, SR))


def test_a_silent_reference_has_no_distances_and_lengths_must_agree(voice):
    zero = np.zeros_like(voice)
    assert math.isnan(log_spectral_distance(zero, voice))
    assert math.isnan(mel_cepstral_distance(zero, voice, SR))
    assert multi_resolution_stft_distance(zero, voice)[0] == math.inf
    assert band_energy_ratio_db(zero, voice, SR) == pytest.approx(np.full(8, np.inf))
    assert np.isnan(band_energy_ratio_db(zero, zero, SR)).all()
    for metric in (log_spectral_distance, multi_resolution_stft_distance, partial(band_energy_ratio_db, sr=SR)):
        refused("24000 samples and the candidate 23999", metric, voice, voice[:-1])


def test_spectral_flatness_is_of_geometric_and_arithmetic_mean_without_both_ends(voice):
    inner = average_spectrum(voice, SR, 64)[1][1:32]
    assert spectral_flatness(voice, 64) == pytest.approx(np.exp(np.log(inner).mean()) / inner.mean(), rel=1e-12)
    assert spectral_flatness(np.random.default_rng(0).standard_normal(100_000)) > 0.98
    assert spectral_flatness(sine(3000)) < 1e-3
    assert math.isnan(spectral_flatness(np.zeros(4096)))


def test_mel_cepstral_distance_is_of_24_coefficients_of_the_cosine_series(voice):
    from scipy.fft import dct

    other = voice + 0.02 * np.random.default_rng(0).standard_normal(len(voice))
    cepstra = []
    for y in (voice, other):
        power = mel_spectrogram(y, SR, 1024, 300, 80)
        floored = np.log(np.maximum(power, mel_spectrogram(voice, SR, 1024, 300, 80).max() * 1e-8))
        cepstra.append(dct(floored, axis=0, type=2)[1:25] / (2 * 80))  # ln P = c_0 + 2 sum c_m cos
    cost, path = librosa.sequence.dtw(X=cepstra[0], Y=cepstra[1], metric="euclidean")
    expected = 10 * math.sqrt(2) / math.log(10) * cost[-1, -1] / len(path)
    assert mel_cepstral_distance(voice, other, SR) == pytest.approx(expected, rel=1e-9)


TIME = np.arange(SR) / SR
VOICE = sum(np.sin(2 * np.pi * 150 * k * TIME) / k for k in range(1, 20))
NOISE = np.random.default_rng(0).standard_normal(SR)
RIGHT = 0.2 * VOICE + 0.02 * NOISE


def agreement(candidate):
    return spectral_agreement(RIGHT, (RIGHT + 1e-6 * NOISE).reshape(1, -1), candidate)


@pytest.mark.parametrize(
    "wrong",
    [0.7 * RIGHT, RIGHT + 0.1 * NOISE, 0.2 * VOICE, np.full(SR, np.nan), RIGHT[:-600], np.zeros(SR), RIGHT**3],
    ids=["level", "hiss", "no noise", "NaN", "a frame short", "silence", "distorted"],
)
def test_what_is_wrong_is_beyond_the_limit(wrong):
    found = agreement(wrong)
    assert not found.distance <= found.limit


def test_rounding_agrees_two_draws_of_noise_are_unrelated_and_the_limit_is_twice_the_floor():
    assert agreement(RIGHT + 1e-6 * np.roll(NOISE, 1)).distance < 0.1
    assert agreement(-RIGHT).distance == 0, "a turn of the whole waveform agrees"
    first, second = np.random.default_rng(1).standard_normal((2, 2 * SR))
    assert spectral_agreement(first, first, second).distance == pytest.approx(UNRELATED, abs=0.1)
    assert [SpectralAgreement(0.0, floor).limit for floor in (0.3, 1.5, 9.0)] == [TRANSPARENT, 3.0, UNRELATED / 2]
    assert np.isnan(SpectralAgreement(0.0, float("nan")).limit)
