import json

import pytest
import torch

from kokoro_nb.__main__ import main
from kokoro_nb.benchmarks import suite
from kokoro_nb.benchmarks.suite import BenchmarkOptions, BenchmarkTable
from kokoro_nb.traces.record import checked_record


@pytest.mark.parametrize("verb", ["repair", "validate-steps"])
def test_what_is_right_in_pytorch_is_a_record_and_exit_status_0(verb, capsys):
    assert main([verb, "--backend", "eager", "--json"]) == 0
    found = checked_record(json.loads(capsys.readouterr().out), f"{verb}/1", "It")
    assert found["minimal"] == ["explicit_noise"] if verb == "repair" else len(found["steps"]) > 10


def test_every_key_of_a_published_folder_is_accounted_for(published, capsys):
    assert main(["weights", str(published)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("kokoro-v1_0 (local file; 3.9 M parameters; sha256 ")
    assert shown[1].endswith("voice where none is named: af_heart")
    assert shown[2].startswith("used: 5")
    assert any(line.startswith("absent: one and zero: 140") for line in shown)
    assert shown[-1] == "stored as float32"


def test_what_does_not_fit_is_listed_whole(published, checkpoint, tmp_path, capsys):
    parts = {part: dict(state) for part, state in checkpoint.items()}
    gone = list(parts["bert_encoder"])
    for key in gone:
        del parts["bert_encoder"][key]
    (tmp_path / "config.json").write_bytes((published / "config.json").read_bytes())
    torch.save(parts, tmp_path / "w.pth")
    assert main(["weights", str(tmp_path), "--json"]) == 2
    out, err = capsys.readouterr()
    found = checked_record(json.loads(out), "weights/1", "It")["loading"]
    assert found["keys"]["missing"] == ["bert_encoder.bias", "bert_encoder.weight"]
    assert err.startswith("kokoro-nb: The weights in w.pth do not fit the model: missing bert_encoder.bias, ")


def test_bench_measures_what_was_requested(capsys, monkeypatch):
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
