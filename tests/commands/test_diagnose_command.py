"""kokoro-nb diagnose: a module of the user's own, or Kokoro's decoder; its exit status is its verdict."""

import json
import runpy

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

MODULE = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return (x.sin() * 2).exp() + 1

def example():
    return Net(), {"x": torch.linspace(0.5, 2, 12).reshape(1, 3, 4)}

def nothing():
    return Net()

def broken():
    return Net(), {"x": "text"}

def raising():
    raise KeyError("weights")

def other():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 8), {"input": torch.ones(1, 3, 4)}

def normed():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.utils.parametrizations.weight_norm(torch.nn.ConvTranspose1d(4, 6, 3)),
        torch.nn.Conv1d(6, 5, 3),
        torch.nn.BatchNorm1d(5),
    )
    with torch.no_grad():
        module[0].parametrizations.weight.original0.mul_(torch.rand(4, 1, 1) + 0.5)
        module[2].running_var.copy_(torch.rand(5) + 0.5)
    return module.eval(), {"input": torch.randn(1, 4, 9)}

def padded():
    module = torch.nn.InstanceNorm1d(3)
    x = torch.randn(1, 3, 6, generator=torch.Generator().manual_seed(0)) + 1
    return module, {"input": torch.nn.functional.pad(x, (0, 10))}, (module, {"input": x})

number = 3
"""
FAULT = "sign_flip@:exp"


@pytest.fixture
def net(tmp_path):
    (tmp_path / "net.py").write_text(MODULE)
    return f"{tmp_path / 'net.py'}:"


def test_a_planted_fault_is_named_shown_and_exit_status_1(net, tmp_path, capsys):
    arguments = ["diagnose", f"{net}example", "--backend", "onnxruntime", "--fault", FAULT, "--json"]
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
def test_a_file_that_norms_are_folded_into_is_looked_into(net, tmp_path, dynamo, capsys):
    module, inputs = runpy.run_path(str(tmp_path / "net.py"))["normed"]()
    path = tmp_path / "folded.onnx"
    with quietly():
        torch.onnx.export(module, tuple(inputs.values()), path, dynamo=dynamo, input_names=["input"])
    assert main(["diagnose", f"{net}normed", "--backend", "onnxruntime", "--artefact", str(path)]) == 0
    assert "nothing wrong was found" in capsys.readouterr().out


def test_a_rewriting_is_compared_with_what_it_was_made_of(net, capsys):
    assert main(["diagnose", f"{net}padded", "--backend", "onnxruntime", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["tap"] for one in found["findings"]] == [":instance_norm"]
    assert found["findings"][0]["mechanism"]["name"] == "padding leaking through statistics"


def test_the_inputs_are_those_of_a_file(net, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=np.full((1, 3, 4), -1, np.float32))
    arguments = ["diagnose", f"{net}example", "--backend", "eager", "--inputs"]
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
def test_a_file_that_is_no_export_of_the_module_is_one_sentence(net, tmp_path, spoil, sentence, capsys):
    file = tmp_path / "model.onnx"
    _other(4)(file)
    spoil(file)
    written = ["--html", str(tmp_path / "page.html"), "--bundle", str(tmp_path / "bundle")]
    assert main(["diagnose", f"{net}other", "--backend", "onnxruntime", "--artefact", str(file), *written]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "page.html").exists()
    assert not (tmp_path / "bundle").exists()


def test_what_is_not_healthy_and_not_localised_is_exit_status_3(net, monkeypatch, capsys):
    unknown = Diagnosis("eager", "tracing", "why", "unknown", (), "The output is wrong, and no operator is.")
    monkeypatch.setattr(inspection, "diagnose", lambda *arguments, **options: unknown)
    assert main(["diagnose", f"{net}example", "--backend", "eager"]) == 3
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
def test_bad_input_is_one_sentence(net, arguments, sentence, capsys):
    if arguments[0].isalpha():
        arguments = [net + arguments[0], *arguments[1:]]
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


def test_what_cures_it_is_tried_unless_it_is_not_wanted(net, capsys, tmp_path):
    sick = tmp_path / "sick.py"
    sick.write_text(MODULE.replace("(x.sin() * 2).exp() + 1", "torch.atan2(0 * x, -x)"))
    arguments = ["diagnose", f"{sick}:example", "--backend", "onnxruntime"]
    assert main(arguments) == 1
    assert "remedy: :atan2 is written in another form" in capsys.readouterr().out
    assert main([*arguments, "--no-remedies"]) == 1
    assert "remedy: None tried." in capsys.readouterr().out


def test_a_survey_is_a_table_and_a_record(net, capsys, monkeypatch):
    arguments = ["survey", f"{net}example", "--backends", "eager", "onnxruntime", "--json"]
    assert main(arguments) == 0
    found = checked_record(json.loads(capsys.readouterr().out), "survey/1", "It")["backends"]
    assert [(one["backend"], one["outcome"]) for one in found] == [("eager", "runs"), ("onnxruntime", "runs")]
    assert 0 <= found[1]["to eager (of peak)"] < 1e-5
    fallen = SurveyRow("tvm", climb=Climb("tvm", Failure("tvm", "lowered", "Error", "no such operator")))
    monkeypatch.setattr("kokoro_nb.locate.survey.survey", lambda *_: (fallen,))
    assert main(arguments[:-1]) == 1
    assert "tvm      failed when lowered: Error: no such operator" in capsys.readouterr().out
    assert main([*arguments[:3], "onyx"]) == 2
