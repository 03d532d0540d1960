import json

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.benchmarks import DEFAULT_SUITES, SUITES, stored_results, suite
from kokoro_nb.benchmarks.suite import BenchmarkOptions, BenchmarkTable


@pytest.fixture
def requested(monkeypatch):
    """What was to be measured; nothing is."""
    seen = []

    def pretend(suites, options):
        seen.append((suites, options))
        row = {"program": "onnxruntime", "run (s)": 0.5, "x eager": 0.5, "from": 0.4, "to": 0.6, "rounds": 2}
        return "narrow (random)", {"decoders": [BenchmarkTable("Decoder, 1 s", [row], {"tvm": "It is not here."})]}

    monkeypatch.setattr(suite, "run", pretend)
    return seen


def test_it_measures_what_was_requested_and_saves_the_result(requested, tmp_path, capsys):
    given = ["bench", "--suite", "decoders", "--weights", "narrow", "--seconds", "1", "10", "--rounds", "3"]
    assert main([*given, "--backends", "onnxruntime", "tvm", "--out", str(tmp_path)]) == 0
    options = BenchmarkOptions("narrow", [1.0, 10.0], ["onnxruntime", "tvm"], 3)
    assert requested == [(["decoders"], options)]
    output = capsys.readouterr().out
    (path,) = tmp_path.glob("*/*.json")
    assert stored_results.load(path)["suites"]["decoders"][0]["rows"][0]["program"] == "onnxruntime"
    assert "Decoder, 1 s" in output
    assert "skipped tvm: It is not here." in output
    assert output.endswith(f"Result: {path}\n")


def test_json_is_the_whole_and_against_compares_with_another(requested, tmp_path, capsys):
    assert main(["bench", "--out", str(tmp_path), "--json"]) == 0
    assert requested[0][0] == list(DEFAULT_SUITES)
    first = json.loads(capsys.readouterr().out)
    assert first["versions"]["torch"]
    (path,) = tmp_path.glob("*/*.json")
    assert json.loads(path.read_text()) == first
    assert main(["bench", "--out", str(tmp_path), "--json", "--against", str(path)]) == 0
    compared = json.loads(capsys.readouterr().out)["against"]
    row = compared["rows"][0]
    assert (row["candidate / reference"], row["change"], compared["differences"]) == (1, "same", [])
    assert main(["bench", "--out", str(tmp_path), "--against", str(path)]) == 0
    assert "candidate / reference" in capsys.readouterr().out


def test_what_cannot_be_compared_is_refused_before_anything_is_measured(requested, tmp_path, capsys):
    (tmp_path / "other.json").write_text("{}")
    assert main(["bench", "--against", str(tmp_path / "other.json"), "--out", str(tmp_path)]) == 2
    assert "holds no benchmark" in capsys.readouterr().err
    assert requested == []


def test_help_has_a_sentence_for_every_suite(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "--help"])
    output = capsys.readouterr().out
    assert len(output.splitlines()) < 40
    assert all(f"{name} " in output and sentence in output for name, sentence in SUITES.items())
