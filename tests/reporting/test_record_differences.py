"""Two records compared: what differs, what changed, and what is to blame; no runtime is asked."""

import json

import numpy as np
import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.reporting.differences import compare_records
from kokoro_nb.run_apart import run_apart
from kokoro_nb.storage import write_json
from kokoro_nb.traces.record import sketched
from tests.traces.test_record import OPERATOR, X, record

RIGHT = {**OPERATOR, "verdict": "pass", "error / rounding": 0.5}
OTHER = {"label": "net", "model": "other"}
OLD, NEW = {"onnxruntime": "1.22.0", "torch": "2.8.0"}, {"onnxruntime": "1.31.1", "torch": "2.13.0"}


@pytest.fixture
def pair(tmp_path):
    """Return a function that writes two records, the second changed, and compares them."""

    def write(before, after):
        paths = [tmp_path / name for name in ("a.json", "b.json")]
        for path, changes, versions in zip(paths, (before, after), (OLD, NEW), strict=True):
            write_json(path, {**record(operators=[RIGHT], history={"itself": 0.0}), "versions": versions, **changes})
        return paths

    return write


def _kinds(paths):
    found = compare_records(*paths)
    return [(one.kind, one.wrong) for one in found.changes], found


def test_an_operator_that_one_version_alone_has_wrong_is_the_runtime_s(pair):
    wrong = {"verdict": "fail", "operators": [OPERATOR], "findings": []}
    kinds, found = _kinds(pair(wrong, {}))
    assert kinds == [("outcome", "before"), ("judgement", "before")]
    assert found.settings == (("onnxruntime", "1.22.0", "1.31.1"), ("torch", "2.8.0", "2.13.0"))
    assert found.blame == "Wrong before alone. Blame: onnxruntime 1.22.0 (not 1.31.1). Also different: torch."
    assert found.regressed
    unwritten = {**wrong, "failure": "onnxruntime failed when lowered: TypeError", "operators": []}
    blame = "Wrong before alone. Blame: torch 2.8.0 (not 2.13.0). Also different: onnxruntime."
    assert _kinds(pair(unwritten, {}))[1].blame == blame, "ONNX Runtime was not asked"


def test_without_another_version_nothing_is_blamed(pair):
    _, found = _kinds(pair({"versions": NEW}, {"verdict": "fail", "operators": [OPERATOR]}))
    assert found.blame == "Wrong after alone. Blame: unknown; the versions and the platform are the same."


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"operators": [{**RIGHT, "name": ":exponential"}]}, "name"),
        ({"operators": [{**RIGHT, "rms": 1.1}]}, "result"),
        ({"operators": [{**RIGHT, "verdict": "unknown"}]}, "captured"),
        ({"operators": []}, "absent"),
    ],
)
def test_what_is_no_fault_is_listed_and_no_regression(pair, change, kind):
    kinds, found = _kinds(pair({}, change))
    assert kinds == [(kind, "")]
    assert not found.regressed
    assert found.blame == "Nothing is wrong in one alone."


def test_outputs_are_compared_at_the_elements_that_are_held(pair):
    def output(value, verdict="pass"):
        return {"outputs": [{**record()["outputs"][0], **sketched(value), "verdict": verdict}]}

    assert _kinds(pair({}, output(X * (1 + 1e-5))))[0] == []
    assert _kinds(pair({}, output(X * 1.01)))[0] == [("output", "")]
    assert _kinds(pair({}, output(X * np.nan, "fail")))[0] == [("output", "after")]
    kinds, found = _kinds(pair({"history": {"itself": float("nan")}}, {}))
    assert kinds == [("history", "before")]
    assert "NaN after itself -> the same" in str(found)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"subject": OTHER}, "The records are of different models, net (a) and net (other)"),
        ({"inputs": [sketched(X + 1, name="x")]}, "The records are of different inputs, 'x' for one"),
        ({"inputs": [sketched(X, name="y")]}, "The records are of different inputs, 'x' for one"),
    ],
)
def test_records_of_another_model_or_of_other_inputs_are_refused(pair, other, sentence, capsys):
    assert main(["compare", *map(str, pair({}, other))]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1


def test_inputs_that_are_rounded_elsewhere_are_the_same(pair):
    assert _kinds(pair({}, {"inputs": [sketched(X * (1 + 1e-6), name="x")]}))[0] == []


def test_the_command_needs_neither_torch_nor_a_runtime(pair, tmp_path):
    paths = pair({"verdict": "fail", "operators": [OPERATOR]}, {})
    code = "import sys\nfor name in ('torch', 'onnx', 'onnxruntime', 'executorch'): sys.modules[name] = None\n"
    code += "from kokoro_nb.__main__ import main\nsys.exit(main(['compare', *sys.argv[1:]]))"
    out = tmp_path / "c.json"
    done = run_apart(["-c", code, *paths, "--json", out])
    assert done.status == 1, done.stderr
    assert done.stdout.startswith("onnxruntime: 1.22.0 -> 1.31.1\n")
    found = json.loads(out.read_text())
    assert (found["schema"], found["count"]["judgement"]) == ("kokoro_nb/comparison/1", 1)
