import json

from kokoro_nb.__main__ import main
from kokoro_nb.benchmarks import suite
from kokoro_nb.benchmarks.suite import BenchmarkOptions, BenchmarkTable
from kokoro_nb.traces.record import checked_record


def test_it_measures_what_was_requested(capsys, monkeypatch):
    seen = []

    def pretend(suites, options):
        seen.append((suites, options))
        row = {"program": "onnxruntime", "run (s)": 0.5, "x eager": 0.5, "from": 0.4, "to": 0.6, "rounds": 2}
        return "narrow (random)", {"decoders": [BenchmarkTable("Decoder, 1 s", [row], {"tvm": "It is not here."})]}

    monkeypatch.setattr(suite, "run", pretend)
    given = ["bench", "--suite", "decoders", "--weights", "narrow", "--seconds", "1", "10", "--rounds", "3"]
    assert main([*given, "--backends", "onnxruntime", "tvm"]) == 0
    options = BenchmarkOptions("narrow", [1.0, 10.0], ["onnxruntime", "tvm"], 3)
    assert seen == [(["decoders"], options)]
    output = capsys.readouterr().out
    assert "Decoder, 1 s" in output
    assert output.endswith("skipped tvm: It is not here.\n")
    assert main([*given, "--json"]) == 0
    tables = checked_record(json.loads(capsys.readouterr().out), "bench/1", "It")["suites"]["decoders"]
    assert tables[0]["rows"][0]["x eager"] == 0.5
