import json

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.benchmarks import stored_results, suite
from kokoro_nb.commands import bench_command


@pytest.fixture
def asked(monkeypatch):
    """What was asked for; nothing is measured."""
    seen = []

    def pretend(wanted):
        seen.append(wanted)
        ratio = {"median": 0.5, "low": 0.4, "high": 0.6, "rounds": 2}
        row = {"program": "onnxruntime", "length": 1.0, "seconds": ratio, "real_time_factor": 0.5, "ratio": ratio}
        work = {
            "flops": 10**9,
            "least_bytes": 10**6,
            "moved_bytes": 10**7,
            "families": {"convolution": {"flops": 10**9}},
        }
        skipped = {"tvm": "It is not here."}
        part = {"length": 1.0, "rows": [{**row, "error": 1e-6, "size": 2_000_000}], "skipped": skipped}
        part |= {"work": work, "ceilings": {"gflops": 90.0, "gbytes": 9.0, "threads": 2}}
        part["floor_seconds"] = {"least": 0.25, "separate": 0.5}
        return "narrow (random)", {"decoders": [part]}

    monkeypatch.setattr(suite, "run", pretend)
    return seen


def test_it_passes_on_what_was_asked_for_and_keeps_the_result(asked, tmp_path, capsys):
    given = ["bench", "--what", "exports", "--weights", "narrow", "--seconds", "1", "10", "--rounds", "3"]
    assert main([*given, "--backends", "onnxruntime", "tvm", "--out", str(tmp_path)]) == 0
    wanted = suite.Asked(["exports"], "narrow", [1.0, 10.0], ["onnxruntime", "tvm"], 3, modules=bench_command.IMPORTED)
    assert asked == [wanted]
    told = capsys.readouterr().out
    (path,) = tmp_path.glob("*/*.json")
    assert stored_results.load(path)["decoders"][0]["rows"][0]["program"] == "onnxruntime"
    assert "Decoder from har, 1 s" in told
    assert "skipped tvm: It is not here." in told
    assert told.endswith(f"Result: {path}\n")


def test_json_is_the_whole_and_against_holds_it_against_another(asked, tmp_path, capsys):
    assert main(["bench", "--out", str(tmp_path), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["versions"]["torch"]
    (path,) = tmp_path.glob("*/*.json")
    assert json.loads(path.read_text()) == first
    assert main(["bench", "--out", str(tmp_path), "--json", "--against", str(path)]) == 0
    held = json.loads(capsys.readouterr().out)["against"]
    assert (held["rows"][0]["now / then"], held["rows"][0]["told"], held["differences"]) == (1, "same", [])
    assert main(["bench", "--out", str(tmp_path), "--against", str(path)]) == 0
    told = capsys.readouterr().out
    assert "now / then" in told
    assert "1 GFLOP" in told


def test_what_cannot_be_held_against_is_told_before_anything_is_measured(asked, tmp_path, capsys):
    (tmp_path / "other.json").write_text("{}")
    assert main(["bench", "--against", str(tmp_path / "other.json"), "--out", str(tmp_path)]) == 2
    assert "holds no benchmark" in capsys.readouterr().err
    assert asked == []


def test_help_is_short_and_names_every_part(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "--help"])
    told = capsys.readouterr().out
    assert len(told.splitlines()) < 30
    assert all(part in told for part in suite.PARTS)
    assert bench_command.PARTS == suite.PARTS
