import json
from types import SimpleNamespace

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.commands import localisation_command
from kokoro_nb.studies import decoder, decoder_search, localisation
from kokoro_nb.studies.repair import smallest_set
from kokoro_nb.studies.validate_steps import validation


@pytest.fixture
def searched(monkeypatch):
    """What the search was called with; it finds what is wanted."""
    seen = {"verdict": "fail"}

    def pretend(*arguments):
        seen["arguments"] = arguments
        told = {"verdict": seen["verdict"], "figure": float("inf")}
        return SimpleNamespace(verdict=seen["verdict"], as_dict=lambda: told, describe=lambda: "what was found")

    monkeypatch.setattr(decoder_search, "localise_decoder", pretend)
    return seen


def test_localise_passes_on_what_was_asked_for(searched, capsys, tmp_path):
    asked = ["localise", "--backend", "tvm-unfused", "--frames", "8", "--fault", "a@b", "--fault", "c@d"]
    assert main([*asked, "--bundle", str(tmp_path), "--reference", "eager-float64"]) == 1
    told = searched["arguments"]
    assert told[:2] == ("tvm-unfused", "narrow")
    assert told[4:] == (8, "eager-float64", ["a@b", "c@d"], tmp_path)
    assert capsys.readouterr().out == "what was found\n"


@pytest.mark.parametrize(("verdict", "status"), [("pass", 0), ("fail", 1), ("unknown", 1)])
def test_only_a_proof_is_exit_status_0(searched, verdict, status, capsys):
    searched["verdict"] = verdict
    assert main(["localise", "--backend", "eager"]) == status


def test_localise_without_a_backend_is_one_sentence(capsys):
    assert main(["localise"]) == 2
    assert "--backend" in capsys.readouterr().err


@pytest.fixture
def captured(monkeypatch):
    monkeypatch.setattr(localisation_command, "_captured", lambda arguments: ("model", "case"))


def test_repair_prints_the_proof_and_fails_without_one(captured, monkeypatch, capsys):
    found = SimpleNamespace(verdict="pass", as_dict=lambda: {"backend": "tvm"}, proof=lambda: [{"left out": "a"}])
    found.as_json = lambda: {"proven": True, "error": float("nan")}
    monkeypatch.setattr(smallest_set, "repair", lambda *arguments, limit: found)
    assert main(["repair", "--backend", "tvm"]) == 0
    assert capsys.readouterr().out == "backend tvm\nleft out a\n"
    found.verdict = "fail"
    assert main(["repair", "--backend", "tvm", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"proven": True, "error": "nan"}


@pytest.mark.parametrize(("holds", "status"), [(True, 0), (False, 1)])
def test_validate_steps_fails_at_the_first_wrong_step(captured, monkeypatch, holds, status, capsys):
    step = SimpleNamespace(as_dict=lambda: {"step": "text", "error": 0.25}, holds=lambda limit: holds)
    monkeypatch.setattr(validation, "validate_steps", lambda *arguments: (step,))
    assert main(["validate-steps", "--backend", "onnxruntime", "--tokens", "20"]) == status
    assert capsys.readouterr().out == "step text; error 0.25\n"


def test_study_prints_a_line_for_each_row(monkeypatch, capsys, tmp_path):
    program = SimpleNamespace(specification=None, exported=None, inputs=None, label="narrow (random)")
    monkeypatch.setattr(decoder, "decoder_from_har", lambda weights, frames: program)
    monkeypatch.setattr("kokoro_nb.faults.generate", lambda specification, number, seed: [number, seed])
    monkeypatch.setattr(localisation, "study", lambda faults, backends, *rest, together: [faults, backends])
    monkeypatch.setattr(localisation, "summarise", lambda rows: [{"faults": rows[0][0], "backends": rows[1]}])
    assert main(["study", "--backends", "eager", "tvm-unfused", "--faults", "7", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "faults 7; backends ['eager', 'tvm-unfused']\n"
