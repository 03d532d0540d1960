import math
import re

import numpy as np
import pytest

from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.reporting.cells import sanitise
from kokoro_nb.reporting.explorer import answer, collect, payload, still
from kokoro_nb.traces.trace import Operator, Recorder
from tests.refusals import refused

BAD = "<script>alert(1)</script>"
NOTHING = np.empty(0)
SHAPE = (1, 6, 10)


def operator(name, *inputs, module="encoder", shape=SHAPE):
    return Operator(name, "aten.relu.default", module, inputs, shape, "float32")


CHAIN = (operator("a:conv", "input:x", "constant:weight"), operator("b:relu", "a:conv"), operator("c:add", "b:relu"))


def recorded(values, operators=CHAIN, keep="full"):
    recorder = Recorder(operators, keep)
    for name, value in values.items():
        recorder.add(name, value)
    return recorder.trace("onnxruntime", {}, {}, "by hand")


@pytest.fixture
def values():
    source = np.random.default_rng(0)
    found = {one.name: source.normal(size=SHAPE).astype(np.float32) for one in CHAIN}
    found["b:relu"][0, 3] = np.nan
    return found


@pytest.fixture
def trace(values):
    return recorded(values)


def error(name, ratio):
    operator = next(one for one in CHAIN if one.name == name)
    return LocalError(operator, ratio, 2.0, ratio, NOTHING, NOTHING, NOTHING, ())


def column(entries, head):
    made = payload(entries)
    place = [one["head"] for one in made["columns"]].index(head)
    return [row[place] for row in made["rows"]]


def test_the_table_has_the_operators_in_order_with_what_was_measured(trace, values):
    entries = collect(trace)
    assert column(entries, "operator") == ["a:conv", "b:relu", "c:add"]
    assert column(entries, "finite %") == [100, pytest.approx(100 * 50 / 60, rel=1e-5), 100]
    heads = [one["head"] for one in payload(entries)["columns"]]
    assert not {"verdict", "× rounding", "own error", "with inherited"} & {*heads}, "nothing was compared"
    del values["b:relu"]
    entries = collect(recorded(values))
    assert column(entries, "verdict") == ["", "unknown", ""], "what was not captured is unknown and has no figures"
    assert "2 captured, 1 not captured, 0 not finite" in entries.summary
    assert "It was not captured" in answer(entries, {"name": "b:relu"})
    refused("no operators to explore", collect, recorded({}, ()))


def test_errors_give_verdicts_and_only_they_do_and_the_worst_comes_first(trace):
    entries = collect(trace, errors=[error("a:conv", 0.5), error("c:add", math.inf)])
    assert column(entries, "verdict") == ["pass", "", "fail"]
    assert column(entries, "× rounding") == [0.5, None, "inf"]
    assert column(entries, "own error")[0] == 0.25  # an error of 0.5 of a peak of 2
    assert "1 wrong by itself" in entries.summary
    assert "50 finite elements; 10 not finite are left out" in answer(entries, {"name": "b:relu"})


def test_a_finding_is_reported(trace):
    culprit = Culprit("nonfinite", "fail", "onnxruntime", trace["b:relu"], channels="1 of 6 channels")
    entries = collect(trace, [culprit])
    assert column(entries, "verdict") == ["", "fail", ""]
    assert culprit.statement in answer(entries, {"name": "b:relu"})
    unknown = Culprit("nonfinite", "unknown", "onnxruntime", trace["b:relu"], reason="its inputs")
    assert collect(trace, [unknown]).by_name["b:relu"].verdict == "unknown"
    assert collect(trace, [unknown], errors=[error("b:relu", 0.1)]).by_name["b:relu"].verdict == "pass"


def test_the_reference_tells_how_far_each_is_with_what_it_inherited(trace, values):
    other = {name: value.copy() for name, value in values.items()}
    other["a:conv"][0, 2, 4] += 3
    peak = float(np.abs(values["a:conv"]).max())
    entries = collect(recorded(other), reference=trace)
    apart = column(entries, "with inherited")
    assert apart[0] == pytest.approx(3 / peak, rel=1e-3)
    assert apart[1:] == ["nan", 0.0], "what is not finite is no match, not even of itself"
    assert "difference, rms" in answer(entries, {"name": "a:conv"})
    nothing = collect(trace, reference=recorded(values, keep="stats"))
    assert "with inherited" not in str(payload(nothing)), "there is nothing to compare with"


def test_neighbours_are_there_both_ways_and_can_be_pressed(trace):
    entries = collect(trace)
    shown = answer(entries, {"name": "b:relu"})
    assert re.findall(r'data-operator="([^"]+)"', shown) == ["a:conv", "c:add"]
    first = answer(entries, {"name": "a:conv"})
    assert "1 of 6 channels wholly non-finite" in first, "b:relu, who reads it, is told to be broken"
    for question in (None, "x", {}, {"name": BAD}, {"name": ["a:conv"]}):
        assert answer(entries, question) == ""


def test_of_statistics_alone_the_channels_that_are_not_finite_are_named(values):
    values["b:relu"][0, 4, 0] = np.inf
    shown = answer(collect(recorded(values, keep="stats")), {"name": "b:relu"})
    assert "knb-strip" not in shown
    assert "Wholly non-finite: 3." in shown
    assert "Partly non-finite: 4." in shown
    assert "keep=" in shown


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((np.zeros((2, 0), np.float32), ""), (np.array(True), "")),
        (np.full((1, 2, 3), 3 + 4j, np.complex64), "rms by channel: 5"),
    ],
)
def test_any_tensor_can_be_shown_a_complex_one_by_its_magnitude(value, words):
    entries = collect(recorded({"a": np.asarray(value)}, (operator("a", shape=np.shape(value)),)), reference=None)
    shown = answer(entries, {"name": "a"})
    assert "<h5>Channels</h5>" in shown
    assert words in shown
    assert ("magnitude" in shown) == bool(words)
    assert still(entries).html


def test_every_name_is_escaped():
    names = [operator(BAD, f"input:{BAD}", "constant:<i>", module=BAD), operator("b", BAD, "<b>")]
    trace = recorded({BAD: np.zeros(SHAPE), "b": np.zeros(SHAPE)}, names)
    entries = collect(trace, [Culprit("nonfinite", "fail", BAD, trace[BAD], channels=BAD)])
    for page in [*(answer(entries, {"name": name}) for name in (BAD, "b")), still(entries).html]:
        assert not re.search("<script|<i>|<b>", page)


def test_what_a_report_shows_survives_its_sanitising(trace):
    entries = collect(trace, errors=[error("c:add", 7.0)])
    html = still(entries).html
    clean = sanitise(html)
    for mark in ("<details", "knb-strip", "knb-histogram", "<dl", "knb-neighbours", "data:image/png;base64,"):
        assert clean.count(mark) == html.count(mark) > 0, mark
    assert "<button" not in html, "nothing that needs a script"
