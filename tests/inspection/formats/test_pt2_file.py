"""Programs of torch.export: every operator judged, faults named, damaged files told in a sentence."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.formats import read_program
from kokoro_nb.inspection.formats.program_report import program_report
from kokoro_nb.inspection.formats.pt2_file import Pt2File


def test_a_healthy_program_passes_with_the_example_that_it_holds(pt2, voice):
    report = nb.inspect(pt2, against=voice)
    assert report.verdict == "pass"
    assert [one.key for one in report.judgements] == [
        "conv1d",
        "instance_norm",
        "sin",
        "linear",
        "leaky_relu",
        "cumsum",
    ]
    assert report.inputs == {"x": "the example that the file holds"}
    assert report.outputs[0].snr > 100
    assert any("7 of 7 values" in note for note in report.notes)


def test_a_wrong_kernel_is_named_and_the_runtime_blamed(pt2, monkeypatch):
    program = read_program(pt2)
    real = Pt2File.run

    def spoilt(self, inputs):
        run = real(self, inputs)
        return replace(run, captured={**run.captured, ":sin": run.captured[":sin"] * (1 + 1e-4)})

    monkeypatch.setattr(Pt2File, "run", spoilt)
    names = [one.name for one in program.operators if "sin" in one.op]
    assert names == [":sin"]
    report = program_report(program, program.made_inputs())
    assert (report.first.key, report.first.blame, report.first.kind) == ("sin", "runtime", "wrong")


def test_an_overflow_of_float16_is_the_fault_of_the_number_type(tmp_path):
    class Loud(torch.nn.Module):
        def forward(self, x):
            return torch.exp(x * 30)

    path = tmp_path / "loud.pt2"
    torch.export.save(torch.export.export(Loud(), (torch.full((2, 8), 0.5, dtype=torch.float16),)), path)
    report = nb.inspect(path)
    assert (report.first.key, report.first.blame, report.first.kind) == ("exp", "precision", "nonfinite")


def test_another_file_parts_at_the_changed_constant(pt2, exported, tmp_path):
    state = {name: value.clone() for name, value in exported.state_dict.items()}
    changed = torch.export.load(str(pt2))
    changed.state_dict["linear.bias"].data += 0.5
    path = tmp_path / "changed.pt2"
    torch.export.save(changed, path)
    report = nb.inspect(path, against=pt2)
    assert report.first.key == ":linear" or "linear" in report.first.key
    assert "the constant 'linear.bias'" in report.first.statement
    assert torch.equal(exported.state_dict["linear.bias"], state["linear.bias"])


def test_what_is_too_large_when_unpacked_is_not_unpacked(pt2, monkeypatch):
    monkeypatch.setattr("kokoro_nb.inspection.formats.pt2_file.HEAVIEST", 1000)
    with pytest.raises(InputError, match="bytes when unpacked; at most 1,000"):
        nb.inspect(pt2)


def test_inputs_that_do_not_fit_are_refused(pt2):
    with pytest.raises(InputError, match="has shape"):
        nb.inspect(pt2, {"x": np.zeros((1, 4, 11), np.float32)})
