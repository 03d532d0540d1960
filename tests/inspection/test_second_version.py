"""A second version of the runtime: right where this one is wrong, wrong as well, or no environment for it at all."""

import sys

import numpy as np
import pytest

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import inspection_report
from kokoro_nb.traces.record import sketched
from tests.refusals import refused

STAND_IN = """#!{python}
import sys
if "inspect" not in sys.argv:
    print('{{{packages}}}')
    sys.exit()
print({said!r}, file=sys.stderr)
sys.exit(4)
"""


@pytest.fixture
def file(save, node):
    return save([node("Neg", ["x"], ["a"], name="/neg"), node("Exp", ["a"], ["y"], name="/exp")], {"x": [8]}, ["y"])


def test_the_runtime_is_to_blame_where_the_other_version_is_right(file, spoil):
    spoil("y", lambda value: value * (1 + 1e-3))
    report = nb.inspect(file, other_python=sys.executable)
    assert (report.first.key, report.first.blame) == ("/exp", "runtime")
    assert report.first.proof[-1].startswith("onnxruntime ")
    assert "gives here what float64 does" in report.first.proof[-1]
    assert report.runtime in report.first.proof[-1]
    assert "gives the output 'y' within 9.991e-4 of the peak" in report.notes[-1]


@pytest.mark.parametrize(
    ("verdict", "ratio", "words"),
    [
        ("fail", 7.0, "does not give here what float64 does either: 7 times"),
        ("unknown", None, "does not show the values"),
    ],
)
def test_a_version_that_is_wrong_as_well_or_shows_nothing_settles_nothing(
    file, spoil, monkeypatch, verdict, ratio, words
):
    spoil("y", lambda value: value * (1 + 1e-3))
    alone = nb.inspect(file)
    operators = [{"name": "/exp", "verdict": verdict, "error / rounding": ratio}]
    found = {"operators": operators, "outputs": [], "findings": []}
    monkeypatch.setattr(inspection_report, "_record", lambda *about: found)
    report = nb.inspect(file, other_python=sys.executable)
    assert report.first.blame == alone.first.blame
    assert words in report.first.proof[-1]


def test_a_version_that_alone_is_wrong_is_noted(file, monkeypatch):
    inputs = {"x": np.linspace(0, 1, 8, dtype=np.float32)}
    output = sketched(np.exp(-inputs["x"]) * np.float32(1.5), name="y", **{"error (of peak)": 0.5})
    found = {"operators": [], "outputs": [output], "findings": []}
    monkeypatch.setattr(inspection_report, "_record", lambda *about: found)
    report = nb.inspect(file, inputs, other_python=sys.executable)
    assert report.findings == ()
    assert "gives the output 'y' within 0.5 of the peak" in report.notes[-1]


@pytest.mark.parametrize(
    ("packages", "said", "sentence"),
    [
        ("", "", "has no onnxruntime; give"),
        ('"onnxruntime": "0.9"', "No module named 'torch'", "has no torch, which kokoro_nb needs there; install it"),
        ('"onnxruntime": "0.9"', "kokoro-nb: it crashed", ""),
    ],
)
def test_what_is_no_environment_for_the_file_is_refused_and_what_crashes_is_a_note(
    file, tmp_path, packages, said, sentence
):
    path = tmp_path / "python"
    path.write_text(STAND_IN.format(python=sys.executable, packages=packages, said=said))
    path.chmod(0o755)
    if sentence:
        refused(sentence, nb.inspect, file, other_python=path)
    else:
        report = nb.inspect(file, other_python=path)
        assert report.verdict == "pass"
        assert "does not run the file: kokoro-nb: it crashed" in report.notes[-1]


def test_what_cannot_be_asked_is_refused(file, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="is not a Python interpreter that can be started; give bin/python"):
        nb.inspect(file, other_python=tmp_path / "none")
    with pytest.raises(InputError, match=r"Only a file that is run can be run on another version"):
        nb.inspect(file, static=True, other_python=sys.executable)
    monkeypatch.setattr("kokoro_nb.inspection.inspecting.rival_runtimes", lambda: "There are two; uninstall one.")
    refused("There are two", nb.inspect, file)
