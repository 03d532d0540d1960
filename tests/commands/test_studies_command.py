import json
from types import SimpleNamespace

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.commands import studies_command
from kokoro_nb.studies.repair import smallest_set
from kokoro_nb.studies.validate_steps import validation


@pytest.fixture
def captured(monkeypatch):
    monkeypatch.setattr(studies_command, "_captured", lambda arguments: ("model", "case"))


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
