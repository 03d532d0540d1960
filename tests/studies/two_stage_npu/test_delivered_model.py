"""A delivery of which a program cannot be exported is a record of that, and no error."""

import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.delivery import export
from kokoro_nb.studies.two_stage_npu import deliver
from kokoro_nb.studies.two_stage_npu.delivered_model import DeliveredModel

FAILURE = Failure("onnxruntime", "lowered", "ValueError", "no kernel")


@pytest.fixture
def unexportable(monkeypatch, tmp_path):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    monkeypatch.setattr(export, "export_program", lambda module, inputs: FAILURE)


def test_the_record_of_what_fell_stands_in_place_of_the_model(narrow, unexportable):
    assert deliver(narrow, "onnxruntime", "onnxruntime", [""], 12, [1.0]) == (None, FAILURE)


def test_an_accelerator_whose_export_fell_has_its_record_and_an_absent_one_its_reason(narrow, unexportable, tmp_path):
    request = export.Delivery("onnxruntime", "onnxruntime", tokens=12, seconds=(1.0,))
    model = DeliveredModel(narrow, request, tmp_path, 0)
    found = model.from_har(["onnxruntime", "coreml"], "Hi.")
    assert found["onnxruntime"] == FAILURE
    assert isinstance(found["coreml"], str)
