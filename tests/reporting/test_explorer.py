import base64
import io
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.locate import Culprit
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.reporting.cells import sanitise
from kokoro_nb.reporting.explorer import (
    ONLY_STATISTICS,
    WIDTH,
    answer,
    bars,
    by_channel,
    explore,
    payload,
    still,
    strip,
)
from kokoro_nb.reporting.explorer.entries import collect
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.trace import Recorder

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


def error(name, ratio, wrong=NOTHING):
    return LocalError(next(one for one in CHAIN if one.name == name), ratio, 2.0, ratio, wrong, NOTHING, NOTHING, ())


def column(entries, head):
    made = payload(entries)
    place = [one["head"] for one in made["columns"]].index(head)
    return [row[place] for row in made["rows"]]


def pixels(html):
    from PIL import Image

    encoded = re.search(r"base64,([^\"]+)", html)[1]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))


def test_the_table_has_the_operators_in_order_with_what_was_measured(trace, values):
    entries = collect(trace)
    assert column(entries, "operator") == ["a:conv", "b:relu", "c:add"]
    assert column(entries, "finite %") == [100, pytest.approx(100 * 50 / 60, rel=1e-5), 100]
    assert column(entries, "max")[0] == pytest.approx(trace["a:conv"].statistics.maximum, rel=1e-5)
    assert column(entries, "shape") == ["1 × 6 × 10"] * 3
    heads = [one["head"] for one in payload(entries)["columns"]]
    assert not {"verdict", "× rounding", "own error", "with inherited"} & {*heads}, "nothing was compared"
    assert [one.name for one in entries.worst(1)] == ["b:relu"]
    del values["b:relu"]
    entries = collect(recorded(values))
    assert column(entries, "verdict") == ["", "unknown", ""], "what was not captured is unknown and has no figures"
    assert column(entries, "rms")[1] is None
    assert "2 captured, 1 not captured, 0 not finite" in entries.summary
    assert "It was not captured" in answer(entries, {"ask": "operator", "name": "b:relu"})
    with pytest.raises(InputError, match="no operators to explore"):
        collect(recorded({}, ()))
    value = np.zeros((1, 1000, 1000), np.float32)
    value[0, 0, 0] = np.inf
    entries = collect(recorded({"a": value}, (operator("a", shape=value.shape),)))
    assert column(entries, "finite %") == [99.99]
    assert entries.all[0].broken


def test_errors_give_verdicts_and_only_they_do_and_the_worst_comes_first(trace):
    wrong = np.zeros(SHAPE, bool)
    wrong[0, 5] = True
    entries = collect(trace, errors=[error("a:conv", 0.5), error("c:add", math.inf, wrong)])
    assert column(entries, "verdict") == ["pass", "", "fail"]
    assert column(entries, "× rounding") == [0.5, None, "inf"]
    assert column(entries, "own error")[0] == 0.25  # an error of 0.5 of a peak of 2
    assert "1 wrong by itself" in entries.summary
    assert [one.name for one in entries.worst(9)] == ["c:add", "b:relu", "a:conv"]  # wrong, not finite, the rest
    shown = answer(entries, {"ask": "operator", "name": "c:add"})
    picture = pixels(re.search(r'<img class="knb-strip" alt="wrong[^>]*>', shown)[0])
    assert (picture[0, -1] != picture[0, 0]).any()
    assert (picture[0, 0] == picture[0, -2]).all()


def test_a_finding_is_reported(trace):
    culprit = Culprit("nonfinite", "fail", "onnxruntime", trace["b:relu"], channels="1 of 6 channels")
    entries = collect(trace, [culprit])
    assert column(entries, "verdict") == ["", "fail", ""]
    assert culprit.statement in answer(entries, {"ask": "operator", "name": "b:relu"})
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
    assert "difference, rms" in answer(entries, {"ask": "operator", "name": "a:conv"})
    assert column(collect(recorded(other), reference=recorded(values, keep="stats")), "max")  # nothing to compare with
    assert "with inherited" not in str(payload(collect(trace, reference=recorded(values, keep="stats"))))


def test_neighbours_are_there_both_ways_and_can_be_pressed(trace):
    entries = collect(trace)
    shown = answer(entries, {"ask": "operator", "name": "b:relu"})
    assert re.findall(r'data-operator="([^"]+)"', shown) == ["a:conv", "c:add"]
    first = answer(entries, {"ask": "operator", "name": "a:conv"})
    assert re.search(r"input</span> x<", first)
    assert re.search(r"constant</span> weight<", first)
    assert "1 of 6 channels wholly non-finite" in first, "b:relu, who reads it, is told to be broken"
    assert "no operator that was requested" in answer(entries, {"ask": "operator", "name": "c:add"})
    for question in (None, "x", {}, {"ask": "operator", "name": BAD}, {"ask": BAD, "name": "a:conv"}):
        assert answer(entries, question) == ""


def test_the_channel_that_is_not_finite_is_striped_where_it_stands(trace):
    strips = re.findall(r"<img[^>]*knb-strip[^>]*>", answer(collect(trace), {"ask": "operator", "name": "b:relu"}))
    finite, mean, rms = map(pixels, strips)
    assert finite.shape[1:] == (6, 3), "a column per channel, which the page widens"
    assert (finite[0, 0] != finite[0, 3]).any()
    for picture, striped in ((finite, []), (mean, [3]), (rms, [3])):
        assert np.flatnonzero((picture[0] != picture[1]).any(axis=-1)).tolist() == striped, "none of it: that is known"


def test_of_statistics_alone_the_channels_that_are_not_finite_are_named(values):
    values["b:relu"][0, 4, 0] = np.inf
    entries = collect(recorded(values, keep="stats"))
    shown = answer(entries, {"ask": "operator", "name": "b:relu"})
    assert "knb-strip" not in shown
    assert shown.count("keep=&#39;full&#39;") + shown.count("keep=&#x27;full&#x27;") == 2
    assert "Wholly non-finite: 3." in shown
    assert "Partly non-finite: 4." in shown
    assert "data-histogram" not in shown
    assert "keep=" in ONLY_STATISTICS
    assert "keep=" in answer(entries, {"ask": "histogram", "name": "b:relu"})


def test_the_histogram_is_made_on_demand_and_says_what_it_leaves_out(trace):
    entries = collect(trace)
    assert "knb-histogram" not in answer(entries, {"ask": "operator", "name": "b:relu"})
    shown = answer(entries, {"ask": "histogram", "name": "b:relu"})
    assert "knb-histogram" in shown
    assert "50 finite elements; 10 not finite are left out" in shown
    nothing = collect(recorded({"a:conv": np.full(SHAPE, np.nan)}))
    assert answer(nothing, {"ask": "histogram", "name": "a:conv"}) == "<p>No element is finite.</p>"


def test_images_say_what_they_are_of():
    picture = pixels(bars(np.repeat([0.0, 1.0], [999, 31])))[..., 3] > 0
    heights = picture.sum(axis=0)
    assert heights[0] == picture.shape[0], "the bars are as high as the logarithm of their count"
    assert heights[-2] == math.ceil(picture.shape[0] * math.log(32) / math.log(1000))
    assert heights[WIDTH // 2] == 0
    found = by_channel(np.array([[[3.0, 4.0], [np.nan, 2.0], [np.inf, -np.inf]]]))
    np.testing.assert_array_equal(found["finite"], [1, 0.5, 0])
    np.testing.assert_array_equal(found["mean"], [3.5, 2, np.nan])
    np.testing.assert_allclose(found["rms"], [math.sqrt(12.5), 2, np.nan])
    values = np.ones(5000)
    values[1234] = 0.0
    (_, shown, ends), (_, sound, _) = (strip("finite", one, "OrRd_r", 0.0, 1.0) for one in (values, np.ones(5000)))
    assert ends == "0 to 1"
    different = (pixels(shown) != pixels(sound)).any(axis=(0, 2))
    assert (different.size, different.sum()) == (WIDTH, 1), "many channels share a column that shows the worst"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((np.float32(3.0), ""), (np.zeros((2, 0), np.float32), ""), (np.arange(4), ""), (np.array([[True]]), "")),
        (np.full((1, 2, 3), 3 + 4j, np.complex64), "rms by channel: 5"),
    ],
)
def test_any_tensor_can_be_shown_a_complex_one_by_its_magnitude(value, words):
    entries = collect(recorded({"a": np.asarray(value)}, (operator("a", shape=np.shape(value)),)), reference=None)
    shown = answer(entries, {"ask": "operator", "name": "a"}) + answer(entries, {"ask": "histogram", "name": "a"})
    assert "<h5>Channels</h5>" in shown
    assert words in shown
    assert ("magnitude" in shown) == bool(words)
    assert still(entries).html


def test_every_name_is_escaped():
    names = [operator(BAD, f"input:{BAD}", "constant:<i>", module=BAD), operator("b", BAD, "<b>")]
    trace = recorded({BAD: np.zeros(SHAPE), "b": np.zeros(SHAPE)}, names)
    culprit = Culprit("nonfinite", "fail", BAD, trace[BAD], channels=BAD)
    entries = collect(trace, [culprit])
    pages = [answer(entries, {"ask": ask, "name": name}) for ask in ("operator", "histogram") for name in (BAD, "b")]
    for page in [*pages, still(entries).html]:
        assert not re.search("<script|<i>|<b>", page)
    assert '&lt;script&gt;alert(1)&lt;/script&gt;">' in pages[1], "the button of what it read"


def test_what_a_report_shows_survives_its_sanitising(trace):
    entries = collect(trace, errors=[error("c:add", 7.0)])
    html = still(entries).html
    clean = sanitise(html)
    for mark in ("<details", "knb-strip", "knb-histogram", "<dl", "knb-neighbours", "data:image/png;base64,"):
        assert clean.count(mark) == html.count(mark) > 0, mark
    assert "<button" not in html, "nothing that needs a script"


def test_the_widget_is_shown_with_what_needs_no_kernel_and_answers(trace, monkeypatch):
    said, sent = [], []
    monkeypatch.setattr("IPython.display.display", lambda one, **options: said.append((one, options)))
    shown = explore(trace)
    shown._ipython_display_()
    (view, options), (page, _) = said
    assert view["application/vnd.jupyter.widget-view+json"]["model_id"] == shown.model_id
    assert options == {"raw": True}
    assert "knb-operator" in page._repr_html_()
    assert repr(page) == repr(shown) == collect(trace).summary
    monkeypatch.setattr(type(shown), "send", lambda self, message: sent.append(message))
    question = {"ask": "operator", "name": "a:conv"}
    shown._reply(shown, question, [])
    assert sent == [{"question": question, "html": answer(collect(trace), question)}]
    json.dumps(shown.get_state()["operators"], allow_nan=False)


def test_an_investigation_brings_everything(trace):
    fault = Culprit("divergence", "fail", "onnxruntime", trace["c:add"])
    nonfinite = Culprit("nonfinite", "fail", "onnxruntime", trace["b:relu"], channels="1 of 6 channels")
    found = {"candidate": trace, "reference": trace, "nonfinite": nonfinite, "faults": (fault,)}
    shown = explore(SimpleNamespace(**found, errors=(error("a:conv", 0.5),)))
    heads = [one["head"] for one in shown.operators["columns"]]
    assert {"verdict", "× rounding", "own error", "with inherited"} <= {*heads}
    assert [row[heads.index("verdict")] for row in shown.operators["rows"]] == ["pass", "fail", "fail"]
