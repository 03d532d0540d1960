"""The harmonic source in float16: diagnosis, profile and search name the same operators."""

from dataclasses import replace

import numpy as np
import pytest

import kokoro_nb as nb
from kokoro_nb.backends import BACKENDS
from kokoro_nb.studies.coreml_complete import source_precision

REASON = BACKENDS["coreml"].available()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def found(shallow):
    return source_precision(shallow, nb.capture(shallow, "Hi.", ""), 4, 1e-2, shrink=False)


def test_what_the_diagnosis_names_stays_float32(found):
    assert found.diagnosis.verdict == "fail"
    assert found.apart == ()
    assert found.cured <= found.diagnosis.output.limit < found.diagnosis.output.of_peak
    rows = found.rows()
    assert {row["operator"] for row in rows if row["rank in the diagnosis"] is not None} <= set(found.mended.kept)
    assert [row["rank in the diagnosis"] for row in rows].count(1) == 1
    assert all(row["its rounding alone (of peak)"] > 0 for row in rows if row["rank in the diagnosis"] == 1)

    worst = found.diagnosis.ranked[0].tap.name
    fewer = replace(found.mended, kept=tuple(name for name in found.mended.kept if name != worst))
    assert replace(found, mended=fewer).apart == (worst,)


def test_without_such_a_remedy_nothing_is_cured(found):
    assert np.isnan(replace(found, diagnosis=replace(found.diagnosis, remedies=())).cured)
