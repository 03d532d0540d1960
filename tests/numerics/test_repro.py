"""Each known defect, on today's versions: there as it is, gone in the other form, and absent from eager."""

import pytest

from kokoro_nb.models import gelu
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.numerics.repro import DEFECTS, reproduce


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_is_there_today_and_gone_when_mended(defect, tmp_path):
    found = reproduce(defect, folder=tmp_path)
    if found.broken.absent:
        pytest.skip(found.broken.absent)
    assert found.present is True, "mended upstream: drop it, or name the version"
    assert found.mends is True
    assert set(found.as_dict()) >= {"as it is: error (of peak)", "mended: error (of peak)", "cause"}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_both_forms_are_the_same_to_eager(defect):
    found = reproduce(defect, "eager")
    assert found.present is False
    assert found.mends is True


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_names_a_patch_that_there_is(defect):
    assert defect.mended_by in PATCHES or hasattr(gelu, defect.mended_by)


def test_a_runtime_that_is_absent_is_unknown(monkeypatch):
    monkeypatch.setattr("kokoro_nb.backends.onnx.OnnxRuntime.available", lambda self: "not here.")
    found = reproduce(next(defect for defect in DEFECTS if defect.backend == "onnxruntime"))
    assert (found.present, found.mends) == (None, None)
    assert found.as_dict()["as it is"] == "SKIP: not here."
