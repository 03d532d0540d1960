from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.locate import survey as module
from kokoro_nb.locate.survey import survey
from tests.backends.small import Of


@pytest.fixture
def inputs():
    return {"input": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


def test_rows_hold_the_figures_and_the_floor(inputs, tmp_path):
    rows = survey(nn.Conv1d(3, 2, 3), inputs, ["eager", "eager-float64", "onnxruntime"], folder=tmp_path)
    by_name = {row.backend: row for row in rows}
    assert by_name["eager"].eager32.max_error == 0
    assert by_name["eager-float64"].eager64.max_error == 0
    assert 0 <= by_name["onnxruntime"].eager32.of_peak < 1e-5
    assert by_name["eager"].floor == by_name["onnxruntime"].floor
    assert 0 < by_name["eager"].floor.of_peak < 1e-5
    cells = by_name["onnxruntime"].as_dict()
    assert (cells["outcome"], cells["finite (%)"], cells["later calls differ by"]) == ("runs", 100, 0)
    assert cells["size (MB)"] > 0
    assert by_name["onnxruntime"].verdict == "pass"
    assert [row.climb.artifact.program for row in rows] == [None] * 3, "no copy of the weights is kept"
    assert rows[2].climb.artifact.path.exists()


def test_what_falls_is_a_row_with_its_rung_and_error(tmp_path):
    row = survey(Of(lambda x: x if x.sum() > 0 else -x), {"x": torch.ones(3)}, ["onnxruntime"], folder=tmp_path)[0]
    assert isinstance(row.climb.failure, Failure)
    assert row.outcome.startswith("failed when exported")
    assert row.verdict == "fail"
    assert set(row.as_dict()) == {"backend", "outcome"}


def test_an_absent_runtime_is_skipped_with_its_reason(inputs, monkeypatch):
    absent = SimpleNamespace(name="absent", available=lambda: "not installed.")
    real = module.backend
    monkeypatch.setattr(module, "backend", lambda name: absent if name == "absent" else real(name))
    row = survey(nn.Conv1d(3, 2, 3), inputs, ["absent"])[0]
    assert row.outcome == "SKIP: not installed."
    assert row.verdict == "skip"
    assert row.climb is None


def test_what_is_built_for_another_machine_is_a_skip_with_its_size(inputs, tmp_path, monkeypatch):
    built = module.backend("onnxruntime")
    monkeypatch.setattr(type(built), "executes", lambda self: "runs on another machine only.")
    row = survey(nn.Conv1d(3, 2, 3), inputs, ["onnxruntime"], folder=tmp_path)[0]
    assert row.outcome == "built, and not run: runs on another machine only."
    assert row.verdict == "skip"
    assert row.eager32 is None
    assert set(row.as_dict()) == {"backend", "outcome", "size (MB)", "export (s)"}
    assert row.as_dict()["size (MB)"] > 0


@pytest.mark.parametrize(("wrong", "of_peak"), [(lambda y: 1.05 * y, 0.05), (lambda y: y * np.nan, np.nan)])
def test_an_output_after_the_first_that_is_wrong_is_the_one_that_is_shown(wrong, of_peak, monkeypatch):
    def climbed(backend, *given, **options):
        taken = real(backend, *given, **options)
        if backend.name == "onnxruntime":
            (first, right), (second, other) = taken.outputs.items()
            taken = replace(taken, outputs={first: right, second: wrong(np.asarray(other))})
        return taken

    real, pair, inputs = module.climb, Of(lambda x: (x + 1, 2 * x)), {"x": torch.linspace(-1, 1, 12)}
    (sound,) = survey(pair, inputs, ["onnxruntime"])
    assert sound.eager32.of_peak < 1e-6
    monkeypatch.setattr(module, "climb", climbed)
    (row,) = survey(pair, inputs, ["onnxruntime"])
    assert row.eager32.of_peak == pytest.approx(of_peak, rel=1e-4, nan_ok=True)
    assert row.eager64.of_peak == pytest.approx(of_peak, rel=1e-4, nan_ok=True)
    assert row.floor.of_peak < 1e-6
