import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.benches import family_shares, times_over_floor


def row(program, seconds):
    spread = {"median": seconds, "low": 0.9 * seconds, "high": 1.2 * seconds, "rounds": 5}
    return {"program": program, "seconds": spread, "real_time_factor": 2 * seconds}


def measured(*rows):
    return {"rows": list(rows), "floor_seconds": {"least": 0.01, "separate": 0.03}}


def test_bars_end_at_the_median_and_both_floors_are_lines():
    figure = times_over_floor(measured(row("eager", 0.1), row("tvm", 0.4)), weights="narrow")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["eager", "tvm"]
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert ends == pytest.approx([0.1, 0.4])
    floors = [line.get_xdata()[0] for line in axes.get_lines() if line.get_label().startswith("floor")]
    assert floors == [0.01, 0.03]
    assert [text.get_text() for text in axes.texts] == ["0.2 x real time", "0.8 x real time"]
    figure._repr_png_()


def test_each_bar_is_divided_by_the_shares():
    told = {"eager": {"convolution": 3.0, "other": 1.0}, "onnxruntime": {"convolution": 1.0, "elementwise": 1.0}}
    figure = family_shares(told)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    # convolution, other, elementwise of each in turn
    assert widths == [75, 25, 0, 50, 0, 50]
    assert len({bar.get_facecolor() for bar in figure.axes[0].patches}) == 3
    figure._repr_png_()


def test_nothing_to_draw_is_one_sentence():
    with pytest.raises(InputError, match="no times to draw"):
        times_over_floor(measured())
    with pytest.raises(InputError, match="no times to divide"):
        family_shares({"eager": {}})
