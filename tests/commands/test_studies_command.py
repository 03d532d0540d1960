import json

import pytest
import torch

from kokoro_nb.__main__ import main
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
