"""What figures show: every sample, one scale for both, what is not finite hatched and said, bars and cells."""

import math
from functools import partial

import matplotlib
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from kokoro_nb.listening.waveform import joins
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.reporting.drawings import local_error_profile
from kokoro_nb.reporting.figures import average_spectra, f0_contours, heat_map, levels_at_joins, log_bars, spectrograms
from kokoro_nb.traces.trace import Operator
from tests.refusals import refused

SR, NAMES = 24_000, ("eager", "mine")
NOTHING = np.empty(0)


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def cells(figure):
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def error(name, ratio):
    operator = Operator(name, "aten.add.Tensor", "", (), (1,), "float32")
    return LocalError(operator, ratio, 1.0, ratio, NOTHING, NOTHING, NOTHING, ())


def test_spectrograms_share_their_scale_on_white_whatever_the_page_sets(voice):
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"figure.facecolor": "none"}):
        figure = spectrograms(voice, 0.1 * voice, SR, NAMES, title="Sound", weights="seeded")
    assert dict(matplotlib.rcParams) == before, "no setting leaks"
    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert (figure.get_suptitle(), figure.get_supxlabel()) == ("Sound", "weights: seeded")
    images = [axes.get_images()[0] for axes in figure.axes[:3]]
    assert images[0].get_clim() == images[1].get_clim() == (-80, 0)
    # a tenth of the amplitude is -20 dB where both are over the floor
    assert images[2].get_array().min() == pytest.approx(-20)
    assert titles(figure)[:3] == ["eager", "mine", "difference"]
    figure.draw_without_rendering()


def test_nan_is_hatched_in_spectrograms(voice, broken):
    figure = spectrograms(voice, broken, SR, NAMES)
    assert titles(figure)[:3] == ["eager", "mine: 75 % finite", "difference: 75 % finite"]
    reference, candidate, difference = (axes.get_images()[0].get_array() for axes in figure.axes[:3])
    assert not np.ma.getmaskarray(reference).any()
    mask = np.ma.getmaskarray(candidate)
    # frame t covers samples 128 t - 512 to 128 t + 511: frames 20 to 50 touch samples 3000 to 5999
    assert np.flatnonzero(mask.all(axis=0)).tolist() == list(range(20, 51))
    assert np.array_equal(mask, np.ma.getmaskarray(difference))
    assert figure.axes[1].patch.get_hatch()
    assert figure.axes[1].get_images()[0].get_cmap().get_bad()[3] == 0
    figure.draw_without_rendering()


def test_bars_and_cells_name_what_is_not_finite():
    bars = log_bars({"none": 0.0, "small": 2e-7, "broken": math.nan, "burst": math.inf}, "error", weights="seeded")
    assert texts(bars) == ["exact 0", "2e−7", "NaN", "∞"]
    assert [bool(bar.get_hatch()) for bar in cells(bars)[-2:]] == [True, True]
    figures = heat_map({"a": {"x": 1e-7, "y": 0.0}, "b": {"x": math.nan, "y": "fail"}}, unit="of peak", log=True)
    assert texts(figures) == ["1e−7", "exact 0", "NaN", "✗ fail"]
    assert [bool(cell.get_hatch()) for cell in cells(figures)] == [False, False, True, False]
    words = heat_map(
        {"a": {"finite": "pass", "parity": "unknown: not captured"}, "b": {"finite": "skip", "parity": "2 MB"}}
    )
    assert texts(words) == ["✓ pass", "? unknown: not captured", "– skip", "2 MB"]
    assert len({cell.get_facecolor() for cell in cells(words)}) == 4
    assert (len(figures.axes), len(words.axes)) == (2, 1), "no scale without a figure"
    for figure in (bars, figures, words):
        figure.draw_without_rendering()


def test_contours_spectra_and_levels_show_the_tone_where_it_is(voice, broken):
    figure = f0_contours({"eager": voice, "mine": broken}, SR)
    assert np.nanmedian(figure.axes[0].get_lines()[0].get_ydata()) == pytest.approx(150, rel=0.01)
    assert legend(figure)[1] == "mine (75 % finite: no F0)"
    tone = np.sin(2 * np.pi * 3000 * np.arange(12_000) / SR)
    figure = average_spectra({"tone": tone, "broken": broken, "silent": np.zeros(12_000)}, SR)
    line, nothing, silent = figure.axes[0].get_lines()
    assert line.get_xdata()[np.argmax(line.get_ydata())] == pytest.approx(3.0, abs=SR / 1024 / 1000)
    assert len(nothing.get_ydata()) == len(silent.get_ydata()) == 0
    assert legend(figure) == ["tone", "broken (75 % finite)", "silent (silent)"]
    whole, at = np.concatenate([voice, np.zeros(SR // 10), voice]), voice.size + SR // 20
    figure = levels_at_joins(whole, SR, joins([whole[:at], whole[at:]], whole, SR))
    assert figure.axes[0].get_lines()[0].get_ydata()[150] == -120  # silence, at the join
    assert legend(figure) == ["0.55 s"]


def test_each_operator_stands_at_its_place_and_what_is_exact_on_the_edge():
    found = {"eager": [error("a", 0.5), error("c", 0.0)], "tvm": [error("a", math.inf), error("b", 30.0)]}
    figure = local_error_profile(found, ["a", "b", "c"], weights="narrow")
    eager, tvm, limit = figure.axes[0].get_lines()
    assert (list(eager.get_xdata()), list(eager.get_ydata())) == ([0, 2], [0.5, 1e-4])
    assert (list(tvm.get_xdata()), list(tvm.get_ydata())) == ([1], [30.0])
    assert set(limit.get_ydata()) == {1}
    (span,) = figure.axes[0].patches
    assert span.get_hatch(), "what is infinite is hatched"
    figure.draw_without_rendering()


SILENT = np.zeros(12_000)
REFUSED = {
    "silent or nowhere finite": partial(spectrograms, SILENT, SILENT, SR, NAMES),
    "12000 samples and the candidate 11999": partial(spectrograms, SILENT, SILENT[:-1], SR, NAMES),
    "no figures": partial(log_bars, {}, "error"),
    "figure of 'a' is -1": partial(log_bars, {"a": -1.0}, "error"),
    "one row at least": partial(heat_map, {"a": {"x": "pass", "y": "pass"}, "b": {"x": "pass"}}),
    "below 0": partial(heat_map, {"a": {"x": -1.0, "y": 1.0}}, log=True),
    "no signals": partial(average_spectra, {}, SR),
    "no join": partial(levels_at_joins, SILENT, SR, ()),
    "no local errors": partial(local_error_profile, {"tvm": []}, ["a"]),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_drawn_is_refused(sentence):
    refused(sentence, REFUSED[sentence])
