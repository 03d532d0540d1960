from types import SimpleNamespace

import pytest

from kokoro_nb.benchmarks.interleaved import Spread, TimedProgram
from kokoro_nb.benchmarks.profiles import Profile
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.show import shown
from kokoro_nb.studies.benchmarks import DecoderBenchmark, Profiles


def row(program, seconds):
    times = Spread(seconds, 0.9 * seconds, 1.2 * seconds, 5)
    return TimedProgram(program, 0.5, times, times)


def measured(*rows):
    return DecoderBenchmark(0.5, SimpleNamespace(rows=rows, floors={"least": 0.01, "separate": 0.03}))


def profiles(**seconds):
    return Profiles({name: Profile(each, 5.0) for name, each in seconds.items()}, {})


def test_bars_end_at_the_median_and_both_floors_are_lines():
    figure = shown(measured(row("eager", 0.1), row("tvm", 0.4)), "narrow")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["eager", "tvm"]
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert ends == pytest.approx([0.1, 0.4])
    floors = [line.get_xdata()[0] for line in axes.get_lines() if line.get_label().startswith("floor")]
    assert floors == [0.01, 0.03]
    assert [text.get_text() for text in axes.texts] == ["0.2 x real time", "0.8 x real time"]
    figure.draw_without_rendering()


def test_each_bar_is_divided_by_the_shares():
    figure = shown(profiles(eager={"convolution": 3.0, "other": 1.0}, onnx={"convolution": 1.0, "elementwise": 1.0}))
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == [75, 50, 25, 0, 0, 50], "convolution, other, elementwise of both"
    assert len({bar.get_facecolor() for bar in figure.axes[0].patches}) == 3
    figure.draw_without_rendering()


def test_nothing_to_draw_is_one_sentence():
    with pytest.raises(InputError, match="no times to draw"):
        shown(measured())
    with pytest.raises(InputError, match="no times to divide"):
        shown(profiles(eager={}))
