from functools import partial

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection

from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import BANDS, floored_db, power_spectrogram
from kokoro_nb.reporting.figures import band_energy_bars, spectrograms, waveforms

SR = 24_000


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def hatched(axes):
    return [c for c in axes.collections if isinstance(c, FillBetweenPolyCollection) and c.get_hatch()]


def test_waveforms_draw_every_sample(voice):
    figure = waveforms(voice, 0.5 * voice, SR, names=("eager", "mine"), title="Sound", weights="seeded")
    above, below = figure.axes
    assert np.array_equal(above.get_lines()[0].get_ydata(), voice)
    assert np.array_equal(above.get_lines()[1].get_ydata(), 0.5 * voice)
    assert np.array_equal(below.get_lines()[0].get_ydata(), -0.5 * voice)
    assert above.get_lines()[0].get_xdata()[-1] == pytest.approx(11_999 / SR)
    assert "full scale" in above.get_ylabel()
    assert below.get_xlabel() == "time (s)"
    assert legend(figure) == ["eager", "mine"]
    assert titles(figure)[1].endswith("(0.5 of the reference's peak)")
    assert figure.get_suptitle() == "Sound"
    assert figure.get_supxlabel() == "weights: seeded"
    assert not hatched(above)
    figure.draw_without_rendering()
    assert titles(waveforms(voice, voice, SR))[1] == "candidate − reference: exactly 0"


@pytest.mark.parametrize(("quarter", "share", "ends"), [(True, "75", (0.125, 0.25)), (False, "0", (0, 0.5))])
def test_nan_is_hatched_in_waveforms(voice, broken, quarter, share, ends):
    figure = waveforms(voice, broken if quarter else np.full_like(voice, np.nan), SR)
    assert legend(figure) == ["reference", f"candidate: {share} % finite"]
    assert titles(figure)[1] == f"candidate − reference: {share} % finite"
    for axes in figure.axes:
        (area,) = hatched(axes)
        places = area.get_paths()[0].vertices[:, 0]  # samples 3000 to 5999 at 24 kHz, or all
        assert (places.min(), places.max()) == pytest.approx(ends)
    figure.draw_without_rendering()


@pytest.mark.parametrize(("place", "bad"), [(0, np.nan), (7000, np.inf), (11_999, -np.inf)])
def test_one_bad_sample_can_be_seen(voice, place, bad):
    voice[place] = bad
    figure = waveforms(np.zeros(12_000), voice, SR)
    (area,) = hatched(figure.axes[0])
    left, right = area.get_paths()[0].vertices[:, 0].min(), area.get_paths()[0].vertices[:, 0].max()
    assert left * SR <= place < right * SR
    assert right - left == pytest.approx(0.5 / 300, rel=0.01)
    assert legend(figure)[1] == "candidate: 99.99 % finite"


def test_an_absurd_size_does_not_hide_the_reference(voice):
    plain, large = waveforms(voice, 5 * voice, SR), waveforms(voice, 1e9 * voice, SR)
    assert plain.axes[0].get_yscale() == "linear"
    assert large.axes[0].get_yscale() == "symlog"
    assert "logarithmic beyond" in large.axes[0].get_ylabel()
    large.draw_without_rendering()
    louder = spectrograms("mel", voice, 100 * voice, SR)
    assert louder.axes[0].get_images()[0].get_clim() == pytest.approx((-80, 40))


def test_spectrograms_share_their_scale(voice):
    figure = spectrograms("stft", voice, 0.1 * voice, SR, weights="seeded")
    images = [axes.get_images()[0] for axes in figure.axes[:3]]
    power = power_spectrogram(voice, 1024, 128)
    assert np.allclose(images[0].get_array(), floored_db(power, power.max(), -80.0))
    assert images[0].get_clim() == images[1].get_clim() == (-80, 0)
    assert images[2].get_clim() == (-40, 40)
    # a tenth of the amplitude is -20 dB where both are over the floor
    assert images[2].get_array().min() == pytest.approx(-20)
    assert titles(figure)[:3] == ["reference", "candidate", "difference"]
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "frequency (kHz)",
        "",
        "",
        "power (dB re reference's maximum)",
        "candidate − reference (dB)",
    ]
    assert figure.get_supxlabel() == "weights: seeded"
    figure.draw_without_rendering()


@pytest.mark.parametrize("kind", ["stft", "mel"])
def test_nan_is_hatched_in_spectrograms(kind, voice, broken):
    figure = spectrograms(kind, voice, broken, SR)
    assert titles(figure)[:3] == ["reference", "candidate: 75 % finite", "difference: 75 % finite"]
    reference, candidate, difference = (axes.get_images()[0].get_array() for axes in figure.axes[:3])
    assert not np.ma.getmaskarray(reference).any()
    mask = np.ma.getmaskarray(candidate)
    # frame t covers samples 128 t - 512 to 128 t + 511: frames 20 to 50 touch samples 3000 to 5999
    assert np.flatnonzero(mask.all(axis=0)).tolist() == list(range(20, 51))
    assert np.array_equal(mask, np.ma.getmaskarray(difference))
    assert figure.axes[1].patch.get_hatch()
    assert figure.axes[1].get_images()[0].get_cmap().get_bad()[3] == 0
    figure.draw_without_rendering()


def test_mel_ticks_stand_at_their_frequencies(voice):
    import librosa

    left = spectrograms("mel", voice, voice, SR).axes[0]
    heights = dict(zip([t.get_text() for t in left.get_yticklabels()], left.get_yticks(), strict=True))
    assert heights["4"] == pytest.approx(librosa.hz_to_mel(4000))
    bottom, top = left.get_images()[0].get_extent()[2:]
    centres = bottom + (np.arange(80) + 0.5) * (top - bottom) / 80
    assert centres == pytest.approx(librosa.hz_to_mel(librosa.mel_frequencies(82, fmax=SR / 2)[1:-1]))


def test_band_energy_bars():
    good, bad = np.linspace(-3, 4, 8), np.array([0, 1, 2, 3, 4, np.nan, np.inf, -np.inf])
    figure = band_energy_bars({"good": good, "bad": bad}, weights="seeded")
    axes = figure.axes[0]
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    assert heights[0] == pytest.approx(good)
    assert heights[1] == pytest.approx(bad[:5])
    written = [text.get_text() for text in axes.texts]
    assert written[:8] == ["−3.0", "−2.0", "−1.0", "0.0", "1.0", "2.0", "3.0", "4.0"]
    assert written[-3:] == ["NaN", "∞", "−∞"]
    assert axes.get_xticklabels()[0].get_text() == "0–0.15"
    assert "dB re reference" in axes.get_ylabel()
    assert legend(figure) == ["good", "bad"]
    figure.draw_without_rendering()
    figure = band_energy_bars({str(i): np.full(len(BANDS), np.nan) for i in range(3)})
    assert [text.get_text() for text in figure.axes[0].texts] == ["NaN"] * 24
    figure.draw_without_rendering()


def test_what_cannot_be_drawn_is_refused(voice):
    with pytest.raises(InputError, match="no band energies"):
        band_energy_bars({})
    with pytest.raises(InputError, match=r"shape \(7,\) for 8 bands"):
        band_energy_bars({"mine": np.zeros(7)})
    for fill in (0.0, np.nan):
        with pytest.raises(InputError, match="silent or nowhere finite"):
            spectrograms("stft", np.full_like(voice, fill), voice, SR)
    for draw in (waveforms, partial(spectrograms, "stft"), partial(spectrograms, "mel")):
        with pytest.raises(InputError, match="12000 samples and the candidate 11999"):
            draw(voice, voice[:-1], SR)
