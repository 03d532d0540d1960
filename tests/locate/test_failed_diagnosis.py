"""A failed export whose error names an operator of the program is localised; one that names none is not."""

import inspect
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from kokoro.istftnet import TorchSTFT
from torch import nn

import kokoro_nb.models.patches  # noqa: F401  its catalogue is what is tried
from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.called_operators import calls
from kokoro_nb.backends.exported import export_program
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.investigation import Subject
from kokoro_nb.locate.refusal import failed_diagnosis, refused_operator
from kokoro_nb.patch_registry import needed_patches
from tests.backends.small import Of, present
from tests.refusals import refused


class Noisy(nn.Module):
    def forward(self, x):
        return torch.sin(x) + torch.randn(4)


INPUTS = {"x": torch.zeros(4)}


def _found(message):
    exported = export_program(Noisy(), INPUTS)
    subject = Subject(BACKENDS["tvm-unfused"], exported, exported, INPUTS)
    return failed_diagnosis(Failure("tvm", "lowered", "NotImplementedError", message), subject)


def test_the_operator_that_the_error_names_is_the_culprit(tmp_path):
    found = _found("'aten.randn.default' draws random numbers")
    refused("Nothing was exported that could be run", found.save_bundle, tmp_path / "bundle")
    assert (found.verdict, found.exit_status, found.first.tap.name) == ("fail", 1, ":randn")
    assert found.first.mechanism.name == "baked-in random numbers"
    assert found.first.source.startswith("test_failed_diagnosis.py:")


def test_an_operator_without_its_namespace_is_known_and_so_is_the_line_that_the_error_quotes():
    assert _found("Unsupported function types ['randn.default'].").first.tap.name == ":randn"
    line = inspect.getsourcelines(Noisy.forward)[1] + 1
    quoted = f'Original traceback:\nFile "/x/test_failed_diagnosis.py", line {line}, in forward\n    return x\n'
    assert _found(quoted).first.source == f"test_failed_diagnosis.py:{line}"
    assert _found(quoted.replace(f"line {line}", f"line {line - 1}")).first is None


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.sin(x) * 2


def test_a_file_that_the_runtime_refuses_is_a_failure_with_operator_and_line(monkeypatch):
    def refuse(*_: object):
        raise RuntimeError("INVALID_GRAPH: Type Error in operator (Sin) in node (node_sin) is invalid.")

    monkeypatch.setattr("kokoro_nb.backends.onnx._session", refuse)
    found = diagnose(Spectrum(), INPUTS, "onnxruntime")
    assert (found.verdict, found.failure.rung, found.exit_status) == ("fail", "loaded", 1)
    assert found.first.tap.name == ":sin"
    assert found.first.source.startswith("test_failed_diagnosis.py:")
    assert "aten.sin.default" in found.failure.operator


def test_an_error_that_names_none_is_not_localised():
    found = _found("out of memory")
    assert (found.verdict, found.exit_status, found.culprits) == ("fail", 3, ())
    assert "one by one" in found.next_step


def test_of_a_tool_that_refuses_every_program_no_operator_is_to_blame(monkeypatch):
    exported = export_program(Noisy(), INPUTS)
    failure = Failure("tvm", "lowered", "PassError", "its packages do not go together")
    monkeypatch.setattr("kokoro_nb.locate.refusal.loaded", lambda *about: failure)
    assert refused_operator(Subject(BACKENDS["tvm-unfused"], exported, exported, INPUTS), failure) is None


class Transformed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stft = TorchSTFT(20, 5, 20)

    def forward(self, x):
        magnitude, phase = self.stft.transform(x)
        return self.stft.inverse(magnitude, phase)


class Peak(nn.Module):
    def forward(self, x):
        return x - x.amax(-1, keepdim=True)


class Counted(nn.Module):
    def forward(self, x):
        return x + ((x > 0) + (x < -1)).float()


@pytest.mark.parametrize(("module", "name"), [(Peak(), ":amax"), (Counted(), ":add")])
def test_what_is_refused_is_located_cured_and_can_be_supplied(module, name, tmp_path):
    x = {"x": torch.randn(2, 6, generator=torch.Generator().manual_seed(0))}
    found = diagnose(module, x, "tvm-unfused", folder=tmp_path, remedies=True)
    assert (found.exit_status, found.first.tap.name, found.first.mechanism.name) == (1, name, "not supported")
    assert found.first.source.startswith("test_failed_diagnosis.py:")
    assert found.first.tap.name in found.statement
    (remedy,) = found.remedies
    assert (remedy.kind, remedy.verdict) == ("other form", "pass")
    assert remedy.error_after < 1e-6
    supplied = diagnose(module, x, "tvm-unfused", folder=tmp_path, supply=(remedy.name,))
    assert (supplied.verdict, supplied.supplied) == ("pass", (remedy.name,))
    assert f"supplied by kokoro_nb: {remedy.name}" in str(supplied)
    records = map(json.loads, map(Path.read_text, tmp_path.rglob("meta.json")))
    assert [remedy.name] in [record["supplied by kokoro_nb"] for record in records]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nonsense", "nothing called 'nonsense' to supply"),
        ("masks by logic", "applies to no operator"),
        ("core operators", "cannot be supplied to tvm-unfused"),
    ],
)
def test_a_supply_that_does_not_apply_is_refused(name, words):
    refused(words, diagnose, Peak(), INPUTS, "tvm-unfused", supply=(name,))


def test_the_patches_that_a_runtime_needs_are_tried_where_nothing_is_exported(tmp_path):
    x = {"x": torch.randn(1, 200, generator=torch.Generator().manual_seed(0))}
    found = diagnose(Transformed(), x, "onnxruntime", folder=tmp_path, remedies=True)
    (remedy,) = found.remedies
    assert (remedy.kind, remedy.name, remedy.verdict) == ("patch", "custom_stft, exact_istft", "pass")
    assert np.isnan(remedy.error_before)
    assert (found.exit_status, found.first.tap.op.partition(".")[0]) == (1, "aten")
    assert needed_patches(Transformed(), "eager") == ()


def test_operators_wrong_where_they_are_joined_have_a_known_defect_and_a_cure(tmp_path):
    present("tvm")
    x = torch.tensor([[1.0, float("nan"), 2.0, -3.0]])
    found = diagnose(Of(lambda x: torch.where(x == x, x, 0.0)).eval(), {"x": x}, "tvm", folder=tmp_path, remedies=True)
    assert (found.verdict, found.ranked[0].mechanism.name) == ("fail", "operators joined")
    assert found.ranked[0].mechanism.defect == "tvm_fused_equal"
    assert [(one.name, one.verdict) for one in found.remedies] == [("isnan asked", "pass")]


def test_what_is_refused_is_named_on_a_runtime_that_hides_its_operators(tmp_path):
    places = Of(lambda x: torch.relu(torch.bucketize(x * 2, torch.tensor([0.0, 1.0])) - 1))
    found = diagnose(places, {"x": torch.randn(6)}, "executorch-xnnpack", folder=tmp_path)
    assert (found.verdict, found.method, found.first.tap.name) == ("fail", "export", ":bucketize")


def test_of_several_operators_on_a_line_the_one_that_is_taken_apart_into_what_the_error_names_is_named():
    class Norm(nn.Module):
        def forward(self, x):
            return torch.instance_norm(x * 2, None, None, None, None, True, 0.1, 1e-5, False)

    inputs = {"x": torch.ones(1, 2, 4)}
    exported = export_program(Norm(), inputs)
    line = inspect.getsourcelines(Norm.forward)[1] + 1
    node = next(name for name, _ in calls(exported.program.run_decompositions()) if "batch_norm" in name)
    quoted = f'[target=torch.ops.{node}]\nOriginal traceback:\nFile "/x/test_failed_diagnosis.py", line {line}, in f\n'
    failure = Failure("tvm", "lowered", "RuntimeError", quoted + "    return x\n")
    subject = Subject(BACKENDS["tvm-unfused"], exported, exported, inputs)
    assert refused_operator(subject, failure).name == ":instance_norm"
    assert str(replace(failure, message="It ends in a stop.")).endswith("It ends in a stop")
