import math

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening.speech_checks import joins
from kokoro_nb.reporting.curves import average_spectra, f0_contours, levels_at_joins

SR = 24_000


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_f0_contours(voice, broken):
    figure = f0_contours({"eager": voice, "mine": broken}, SR, weights="seeded")
    reference, candidate = figure.axes[0].get_lines()
    assert np.nanmedian(reference.get_ydata()) == pytest.approx(150, rel=0.01)
    assert np.isnan(reference.get_ydata()).any()
    assert len(candidate.get_ydata()) == 0
    assert legend(figure)[1] == "mine (75 % finite: no F0)"
    assert legend(figure)[0].endswith("% of frames voiced)")
    assert figure.axes[0].get_ylabel() == "F0 (Hz)"
    assert not math.isnan(figure.axes[0].get_xlim()[1])
    figure._repr_png_()
    with pytest.raises(InputError, match="no signals"):
        f0_contours({}, SR)


def test_average_spectra_show_the_tone_where_it_is(voice, broken):
    tone = np.sin(2 * np.pi * 3000 * np.arange(12_000) / SR)
    figure = average_spectra({"tone": tone, "broken": broken, "silent": np.zeros(12_000)}, SR, weights="seeded")
    line, nothing, silent = figure.axes[0].get_lines()
    assert line.get_xdata()[np.argmax(line.get_ydata())] == pytest.approx(3.0, abs=SR / 1024 / 1000)
    assert len(nothing.get_ydata()) == len(silent.get_ydata()) == 0
    assert legend(figure) == ["tone", "broken (75 % finite)", "silent (silent)"]
    with pytest.raises(InputError, match="no signals"):
        average_spectra({}, SR)


def test_levels_at_joins(voice):
    quiet = np.zeros(SR // 10)
    whole = np.concatenate([voice, quiet, voice])
    figure = levels_at_joins(
        whole, SR, joins([whole[: voice.size + SR // 20], whole[voice.size + SR // 20 :]], whole, SR)
    )
    curve, zero = figure.axes[0].get_lines()
    assert curve.get_ydata()[150] == -120  # silence, at the join
    assert curve.get_ydata().max() > -30
    assert legend(figure) == [f"{voice.size / SR + 0.05:.2f} s"]
    assert set(zero.get_xdata()) == {0}
    figure._repr_png_()
    with pytest.raises(InputError, match="no join"):
        levels_at_joins(whole, SR, ())
