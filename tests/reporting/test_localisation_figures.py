import math

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.locate.bisection import Bisection, BisectionStep
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.reporting.drawings import drawn, local_error_profile
from kokoro_nb.traces.operators import Operator

NOTHING = np.empty(0)


def error(name, ratio):
    operator = Operator(name, "aten.add.Tensor", "", (), (1,), "float32")
    return LocalError(operator, ratio, 1.0, ratio, NOTHING, NOTHING, NOTHING, ())


def test_each_operator_stands_at_its_place_and_what_is_exact_on_the_edge():
    found = {"eager": [error("a", 0.5), error("c", 0.0)], "tvm": [error("a", math.inf), error("b", 30.0)]}
    figure = local_error_profile(found, ["a", "b", "c"], weights="narrow")
    axes = figure.axes[0]
    eager, tvm, limit = axes.get_lines()
    assert list(eager.get_xdata()) == [0, 2]
    assert list(eager.get_ydata()) == [0.5, 1e-4]
    assert (list(tvm.get_xdata()), list(tvm.get_ydata())) == ([1], [30.0])
    assert set(limit.get_ydata()) == {1}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["eager", "tvm"]
    (span,) = axes.patches
    assert span.get_hatch(), "what is infinite is hatched"
    figure.draw_without_rendering()
    with pytest.raises(InputError, match="no local errors"):
        local_error_profile({"tvm": []}, ["a"])


def test_each_compilation_is_a_bar_of_its_part():
    wrong = (error("y:mul", 7.0),)
    steps = (
        BisectionStep(0, 9, wrong),
        BisectionStep(0, 4),
        BisectionStep(4, 9, wrong),
        BisectionStep(4, 6, failure="it does not compile"),
    )
    axes = drawn(Bisection("", 9, "fail", ("y:mul",), 6, steps=steps), "narrow", "").axes[0]
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0, 9), (0, 4), (4, 5), (4, 2)]
    colours = [bar.get_facecolor() for bar in axes.patches]
    assert colours[0] == colours[2] == colours[3] != colours[1]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["wrong", "right"]
