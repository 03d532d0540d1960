"""Records: one that fits its form is read, and what is planted in it is seen."""

import numpy as np
import pytest

from kokoro_nb.__main__ import _parser
from kokoro_nb.storage import write_json
from kokoro_nb.traces import record as module
from kokoro_nb.traces.record import FORMS, checked_record, headed, read_record, sketched, sketches_apart
from tests.refusals import refused

OPERATOR = {"name": ":exp", "op": "aten.exp.default", "verdict": "fail", "reason": "", "rms": 1.0, "finite": 1.0}
OPERATOR |= {"error / rounding": float("inf"), "error (of peak)": None}
X = np.array([1, -2, 0.5])


def record(**changes):
    output = {"name": "output", "verdict": "pass", "error (of peak)": 0.0, "limit (of peak)": 1e-6, **sketched(X)}
    about = {
        "subject": {"label": "net", "model": "a"},
        "inputs": [sketched(X, name="x")],
        "runtime": {"name": "onnxruntime", "packages": ["onnxruntime"]},
        "history": {"itself": float("nan")},
        **dict.fromkeys(("verdict", "statement", "method", "failure"), "pass"),
        **{"operators": [OPERATOR], "outputs": [output], "findings": [], "remedies": []},
    }
    return headed("diagnosis/1", **{**about, **changes})


def test_a_record_is_written_and_read_with_figures_that_are_not_finite(tmp_path):
    write_json(tmp_path / "a.json", record())
    found = read_record(tmp_path / "a.json")
    assert found["schema"] == "kokoro_nb/diagnosis/1"
    assert found["operators"][0]["error / rounding"] == np.inf
    assert np.isnan(found["history"]["itself"])
    assert found["versions"]["numpy"] == np.__version__


def test_each_verb_that_gives_json_has_a_form_that_is_written_down():
    named = {"diagnose": "diagnosis", "inspect": "diagnosis", "compare": "comparison"}
    forms = {form.partition("/")[0] for form in FORMS}
    verbs = _parser()._subparsers._group_actions[0].choices.items()
    assert {named.get(verb, verb) for verb, parser in verbs if "--json" in parser.format_help()} == forms
    assert all(f"\n``{form}`` (``kokoro-nb " in module.__doc__ for form in forms)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schema": "kokoro_nb/diagnosis/99"}, r"no record of the schema kokoro_nb/diagnosis/1 \(its schema"),
        ({"operators": [{**OPERATOR, "rms": "loud"}]}, "'operators 0 rms' is no figure"),
        ({"operators": [{"name": ":exp"}]}, "it has no 'operators 0 op'"),
        ({"outputs": {}}, "'outputs' is no list"),
        ({"subject": []}, "'subject' is no mapping"),
        ({"verdict": 1}, "'verdict' is no text"),
    ],
)
def test_what_is_planted_in_a_record_is_seen(changes, sentence):
    refused(sentence, checked_record, {**record(), **changes}, "diagnosis/1", "a.json")
    checked_record(record(), "diagnosis/1", "a.json")


@pytest.mark.parametrize(
    ("text", "sentence"), [("{", "cannot be read as JSON"), ("[]", "no record of"), ("{}", "its schema: None")]
)
def test_what_is_no_record_is_one_sentence(tmp_path, text, sentence):
    (tmp_path / "a.json").write_text(text)
    refused(sentence, read_record, tmp_path / "a.json")


@pytest.mark.parametrize(
    ("other", "apart"),
    [(X, 0), (X + np.array([0, 0, 0.5]), 0.25), (X[:2], np.inf), (X * [1, np.nan, 1], np.nan), (np.float32(X), 0)],
)
def test_sketches_are_as_far_apart_as_their_arrays(other, apart):
    np.testing.assert_equal(sketches_apart(sketched(X), sketched(other)), apart)
