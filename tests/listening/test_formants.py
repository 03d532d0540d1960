import numpy as np
import pytest
from scipy.signal import lfilter

from kokoro_nb.errors import InputError
from kokoro_nb.listening.formants import FormantTrack, formant_tracks, median_of_columns

SR = 24_000
VOWELS = {"i": (280, 2250), "e": (530, 1850), "a": (730, 1100), "o": (500, 1000), "u": (310, 870)}
HIGHER = ((2900, 120), (3600, 150), (4500, 200))


def resonator(signal, frequency, bandwidth):
    """Two poles, as in a formant synthesiser (Klatt, 1980)."""
    radius = np.exp(-np.pi * bandwidth / SR)
    return lfilter([1], [1, -2 * radius * np.cos(2 * np.pi * frequency / SR), radius**2], signal)


def vowel(formants, f0=100, widths=(60, 90)):
    pulses = np.zeros(SR // 2)
    pulses[:: round(SR / f0)] = 1
    signal = lfilter([1], [1, -0.97], pulses)  # the slope of the glottal pulses
    for frequency, bandwidth in (*zip(formants, widths, strict=True), *HIGHER):
        signal = resonator(signal, frequency, bandwidth)
    return 0.3 * signal / np.abs(signal).max()


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(0).normal(0, 0.1, SR)


@pytest.mark.parametrize("formants", VOWELS.values(), ids=list(VOWELS))
@pytest.mark.parametrize("f0", [100, 125, 200])
def test_synthesised_vowels_have_their_formants(formants, f0):
    track = formant_tracks(vowel(formants, f0), SR)
    inner = track.frequencies[10:-10]
    assert np.isfinite(inner).mean() > 0.9
    # harmonics sample the envelope every F0: the nearest one draws F1 towards itself, by up to a quarter of the spacing
    assert np.abs(np.median(inner, axis=0) - formants).max() <= f0 / 4


def test_the_formant_follows_the_resonance_and_not_the_harmonics():
    wanted = np.arange(420, 681, 20)
    found = [np.nanmedian(formant_tracks(vowel((f1, 1850)), SR).frequencies[10:-10, 0]) for f1 in wanted]
    # over two and a half harmonics; one that stuck to them would err by up to 50 Hz
    assert np.abs(found - wanted).max() < 25
    assert np.polyfit(wanted, found, 1)[0] == pytest.approx(1, abs=0.05)


def test_bandwidths_are_those_of_the_resonators():
    widths = [
        np.nanmedian(formant_tracks(vowel((500, 1500), widths=(60, second)), SR).bandwidths[10:-10, 1])
        for second in (60, 240)
    ]
    # the window of 30 ms cannot tell widths apart that are below its own resolution, and a factor of 4 it can
    assert widths[1] > 2 * widths[0]


def test_a_wide_first_formant_is_nan_and_the_second_stays_the_second():
    inner = formant_tracks(vowel((500, 1500), widths=(450, 90)), SR).frequencies[10:-10]
    assert np.isnan(inner[:, 0]).mean() > 0.9
    assert np.nanmedian(inner[:, 1]) == pytest.approx(1500, abs=25)
    # the control: without the limit it is there
    loose = formant_tracks(vowel((500, 1500), widths=(450, 90)), SR, widest=700).frequencies[10:-10]
    assert np.isfinite(loose[:, 0]).mean() > 0.9


def test_silence_has_none():
    track = formant_tracks(np.zeros(SR), SR)
    assert len(track.times) == 1 + SR // 120
    assert np.isnan(track.frequencies).all()
    assert np.isnan(track.bandwidths).all()


def test_noise_has_hardly_any(noise):
    # 0.5 % of the frames at this seed
    assert np.isfinite(formant_tracks(noise, SR).frequencies).mean(axis=0).max() < 0.05
    # the control: it is the limit on the bandwidth that tells noise from a vowel
    assert np.isfinite(formant_tracks(noise, SR, widest=700).frequencies)[:, 0].mean() > 0.5


def test_what_is_faint_has_none():
    loud = vowel((500, 1500))
    both = np.concatenate([loud, 1e-3 * loud])
    track = formant_tracks(both, SR)
    faint = track.times > 0.53
    assert np.isnan(track.frequencies[faint]).all()
    assert np.isfinite(formant_tracks(both, SR, gate_db=-80.0).frequencies[faint][:-10]).mean() > 0.9


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_frames_that_touch_a_bad_sample_have_none_and_others_stay(value):
    spoilt = vowel((500, 1500))
    clean = formant_tracks(spoilt, SR).frequencies
    spoilt[6000] = value
    found = formant_tracks(spoilt, SR).frequencies
    gone = np.abs(np.arange(len(found)) * 120 - 6000) <= 0.015 * SR
    assert np.isnan(found[gone]).all()
    far = np.abs(np.arange(len(found)) * 120 - 6000) > 0.02 * SR
    np.testing.assert_array_equal(found[far], clean[far])


def test_the_level_does_not_matter():
    quiet, loud = (formant_tracks(gain * vowel((500, 1500)), SR).frequencies for gain in (2.0**-10, 1.0))
    # a power of two is exact, but for librosa's smallest float beside the denominator
    np.testing.assert_allclose(quiet, loud, rtol=1e-9)


def test_the_ceiling_of_a_higher_voice():
    track = formant_tracks(vowel((600, 2300), 200), SR, ceiling=5500)
    assert np.abs(np.nanmedian(track.frequencies[10:-10], axis=0) - (600, 2300)).max() <= 50


@pytest.mark.parametrize("wrong", [{"ceiling": 13_000.0}, {"ceiling": 100.0}, {"hop_length": 0}, {"order": 2}])
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InputError, match="half the sample rate"):
        formant_tracks(vowel((500, 1500)), SR, **wrong)


def test_no_signal_is_refused():
    with pytest.raises(InputError, match="one channel"):
        formant_tracks(np.zeros((2, 100)), SR)


def test_the_middle_of_a_sound():
    times = np.arange(9) / 100
    frequencies = np.array([[9, 9], [9, 9], [1, 5], [2, np.nan], [3, np.nan], [4, np.nan], [5, 6], [9, 9], [9, 9]])
    track = FormantTrack(times, frequencies, frequencies)
    # frames 2 to 6 are the middle half of 0 to 80 ms; the second formant is in two of five
    np.testing.assert_array_equal(track.middle(0.0, 0.08), [3, np.nan])
    assert np.isnan(track.middle(0.051, 0.052)).all()


def test_median_of_columns_leaves_nan_out():
    np.testing.assert_array_equal(
        median_of_columns(np.array([[1, np.nan], [np.nan, np.nan], [4, np.nan]])), [2.5, np.nan]
    )
