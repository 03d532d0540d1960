"""kokoro-nb diagnose: a module of the user's own, or Kokoro's decoder; its exit status is its verdict."""

import json

import numpy as np
import pytest
import torch

from kokoro_nb import inspection
from kokoro_nb.__main__ import main
from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.ladder import Climb
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.traces.record import checked_record
from tests.commands import nets

FAULT, NET = "sign_flip@:exp", f"{nets.__file__}:"


def test_a_planted_fault_is_named_shown_and_exit_status_1(tmp_path, capsys):
    arguments = ["diagnose", f"{NET}example", "--backend", "onnxruntime", "--fault", FAULT, "--json"]
    written = ["--html", str(tmp_path / "page.html"), "--bundle", str(tmp_path / "bundle")]
    assert main([*arguments, *written, "--precision", "float64"]) == 1
    found = json.loads(capsys.readouterr().out)
    checked_record(found, "diagnosis/1", "It")
    assert (found["planted"], found["findings"][0]["tap"], found["method"]) == ([FAULT], ":exp", "tracing")
    assert [one["verdict"] for one in found["operators"]] == ["pass", "pass", "fail", "pass"]
    assert (found["outputs"][0]["verdict"], len(found["outputs"][0]["sample"])) == ("fail", 12)
    assert ":exp is the first operator that is wrong" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert {"repro.py", "REPORT.md"} <= {path.name for path in (tmp_path / "bundle").iterdir()}


def _other(features):
    def write(path):
        torch.manual_seed(0)
        with quietly():
            given = (torch.ones(1, 3, features),)
            torch.onnx.export(torch.nn.Linear(features, 8).eval(), given, dynamo=True).save(str(path))

    return write


@pytest.mark.parametrize("dynamo", [True, False])
def test_a_file_that_norms_are_folded_into_is_looked_into(tmp_path, dynamo, capsys):
    module, inputs = nets.normed()
    path = tmp_path / "folded.onnx"
    with quietly():
        torch.onnx.export(module, tuple(inputs.values()), path, dynamo=dynamo, input_names=["input"])
    assert main(["diagnose", f"{NET}normed", "--backend", "onnxruntime", "--artefact", str(path)]) == 0
    assert "nothing wrong was found" in capsys.readouterr().out


def test_a_rewriting_is_compared_with_what_it_was_made_of(capsys):
    assert main(["diagnose", f"{NET}padded", "--backend", "onnxruntime", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["tap"] for one in found["findings"]] == [":instance_norm"]
    assert found["findings"][0]["mechanism"]["name"] == "padding leaking through statistics"


def test_the_inputs_are_those_of_a_file(tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=np.full((1, 3, 4), -1, np.float32))
    arguments = ["diagnose", f"{NET}example", "--backend", "eager", "--inputs"]
    assert main([*arguments, str(tmp_path / "x.npz")]) == 0
    assert "No operator is wrong on eager: all 4 that were captured are finite" in capsys.readouterr().out
    np.savez(tmp_path / "y.npz", y=np.zeros((1, 3, 4), np.float32))
    assert main([*arguments, str(tmp_path / "y.npz")]) == 2
    assert "no parameter 'y'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_other(5), "is no export of this module: The input"),
        (lambda path: path.unlink(), "There is no file"),
        (lambda path: path.write_bytes(b"no model"), "is no ONNX file"),
    ],
)
def test_a_file_that_is_no_export_of_the_module_is_one_sentence(tmp_path, spoil, sentence, capsys):
    file = tmp_path / "model.onnx"
    _other(4)(file)
    spoil(file)
    written = ["--html", str(tmp_path / "page.html"), "--bundle", str(tmp_path / "bundle")]
    assert main(["diagnose", f"{NET}other", "--backend", "onnxruntime", "--artefact", str(file), *written]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "page.html").exists()
    assert not (tmp_path / "bundle").exists()


def test_what_is_not_healthy_and_not_localised_is_exit_status_3(monkeypatch, capsys):
    unknown = Diagnosis("eager", "tracing", "why", "unknown", (), "The output is wrong, and no operator is.")
    monkeypatch.setattr(inspection, "diagnose", lambda *arguments, **options: unknown)
    assert main(["diagnose", f"{NET}example", "--backend", "eager"]) == 3
    assert "next step: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "has to return a module and a mapping of its inputs, not a Net"),
        (["broken"], "fails in eager PyTorch"),
        (["raising"], "raised KeyError: 'weights'"),
        (["number"], "There is no function 'number'"),
        (["example", "--patches", "two_pass_norm"], "finds nothing in a Net to change"),
        (["example", "--patches", "faster"], "There is no patch 'faster'"),
        (["example", "--inputs", "nowhere.npz"], "There is no file nowhere.npz"),
        (["nowhere.py:example"], "There is no file nowhere.py"),
        (["nowhere.at.all:example"], "cannot be imported (ModuleNotFoundError"),
        (["net.py"], "names no function"),
        (["--backend", "eagre"], "There is no backend 'eagre'"),
        (["--backend", "coreml"], "coreml cannot run here"),
        (["--fault", "sign_flip"], "is no fault"),
        (["--json", "net.py:example"], "'net.py:example' is no .json file; name one, or put"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, capsys):
    if arguments[0].isalpha():
        arguments = [NET + arguments[0], *arguments[1:]]
    assert main(["diagnose", "--backend", "eager", *arguments]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1


def test_kokoros_decoder_is_what_is_diagnosed_without_a_target(capsys):
    fault = "sign_flip@decoder.decode.1.norm1:add"
    assert main(["diagnose", "--backend", "eager", "--frames", "4", "--fault", fault]) == 1
    printed = capsys.readouterr().out
    assert "decoder from har, 4 frames, weights narrow" in printed
    assert "decoder.decode.1.norm1:add is the first operator that is wrong" in printed


def test_what_cures_it_is_tried_unless_it_is_not_wanted(capsys):
    arguments = ["diagnose", f"{NET}sick", "--backend", "onnxruntime"]
    assert main(arguments) == 1
    assert "remedy: :atan2 is written in another form" in capsys.readouterr().out
    assert main([*arguments, "--no-remedies"]) == 1
    assert "remedy: None tried." in capsys.readouterr().out


def test_a_survey_is_a_table_and_a_record(capsys, monkeypatch):
    arguments = ["survey", f"{NET}example", "--backends", "eager", "onnxruntime", "--json"]
    assert main(arguments) == 0
    found = checked_record(json.loads(capsys.readouterr().out), "survey/1", "It")["backends"]
    assert [(one["backend"], one["outcome"]) for one in found] == [("eager", "runs"), ("onnxruntime", "runs")]
    assert 0 <= found[1]["to eager (of peak)"] < 1e-5
    fallen = SurveyRow("tvm", climb=Climb("tvm", Failure("tvm", "lowered", "Error", "no such operator")))
    monkeypatch.setattr("kokoro_nb.locate.survey.survey", lambda *_: (fallen,))
    assert main(arguments[:-1]) == 1
    assert "tvm      failed when lowered: Error: no such operator" in capsys.readouterr().out
    assert main([*arguments[:3], "onyx"]) == 2
