import math

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from kokoro_nb.errors import InputError
from kokoro_nb.listening.joins import joins
from kokoro_nb.reporting.charts import heat_map, log_bars
from kokoro_nb.reporting.figures import average_spectra, f0_contours, levels_at_joins

SR = 24_000


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def labels(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def cells(figure):
    return [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]


def test_log_bars():
    effects = {"none": 0.0, "small": 2e-7, "large": 0.5, "broken": math.nan, "burst": math.inf}
    figure = log_bars(effects, "maximum error (of the peak)", weights="seeded")
    axes = figure.axes[0]
    assert labels(figure) == list(effects)
    assert texts(figure) == ["exact 0", "2e−7", "0.5", "NaN", "∞"]
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "maximum error (of the peak)"
    small, large, broken, burst = cells(figure)
    assert small.get_x() + small.get_width() == pytest.approx(2e-7)
    assert large.get_x() + large.get_width() == pytest.approx(0.5)
    assert not large.get_hatch()
    assert broken.get_hatch()
    assert burst.get_hatch()
    assert figure.get_supxlabel() == "weights: seeded"
    figure.draw_without_rendering()


def rows(names, columns, values):
    return {name: dict(zip(columns, line, strict=True)) for name, line in zip(names, values, strict=True)}


def test_heat_map_of_verdicts():
    values = [["pass", "fail 3e-2"], ["unknown: not captured", "skip"], ["pass", "213 MB"]]
    figure = heat_map(rows("abc", ["finite", "parity"], values), title="Verdicts", weights="seeded")
    assert texts(figure) == ["✓ pass", "✗ fail 3e-2", "? unknown: not captured", "– skip", "✓ pass", "213 MB"]
    colours = [cell.get_facecolor() for cell in cells(figure)]
    assert colours[0] == colours[4]
    assert len({colours[i] for i in (0, 1, 2, 3, 5)}) == 5
    assert labels(figure) == ["a", "b", "c"]
    assert len(figure.axes) == 1, "no scale without a figure"
    figure.draw_without_rendering()
    long = "fail: RuntimeError: Expected tensor to have default or channels last dim order"
    assert all(len(line) <= 16 for line in texts(heat_map({"a": dict.fromkeys("vwxyz", long)}))[0].splitlines())


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="no figures"):
        log_bars({}, "error")
    with pytest.raises(InputError, match="figure of 'a' is -1"):
        log_bars({"a": -1.0}, "error")
    assert texts(log_bars({"a": 0.0, "b": 0.0}, "error")) == ["exact 0", "exact 0"]
    for values in ({}, {"a": {}}, {"a": {"x": "pass", "y": "pass"}, "b": {"x": "pass"}}):
        with pytest.raises(InputError, match="one row at least"):
            heat_map(values)


def test_heat_map_of_figures():
    values = [[1e-7, 1e-3, 0.0], [math.nan, -math.inf, "fail"]]
    with pytest.raises(InputError, match="below 0"):
        heat_map(rows("ab", "xyz", values), log=True)
    values[1][1] = math.inf
    figure = heat_map(rows("ab", "xyz", values), unit="error (of the peak)", log=True)
    assert texts(figure) == ["1e−7", "0.001", "exact 0", "NaN", "∞", "✗ fail"]
    drawn = cells(figure)
    assert drawn[0].get_facecolor() != drawn[1].get_facecolor()
    assert [bool(cell.get_hatch()) for cell in drawn] == [False, False, False, True, True, False]
    assert figure.axes[0].get_xlabel() == "colour: error (of the peak)"
    assert len(figure.axes) == 2
    figure.draw_without_rendering()


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
    figure.draw_without_rendering()
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
    figure.draw_without_rendering()
    with pytest.raises(InputError, match="no join"):
        levels_at_joins(whole, SR, ())
