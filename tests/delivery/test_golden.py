"""The golden vectors: what arithmetic says, computed by the pipeline itself."""

import json

import numpy as np
import pytest

from kokoro_nb.delivery.golden import golden_vectors, write_golden
from kokoro_nb.delivery.pipeline import TwoStages


@pytest.fixture(scope="module")
def cases():
    return {case["name"]: case for case in golden_vectors()["cases"]}


def test_the_vectors_are_what_arithmetic_says(cases):
    assert cases["empty tail"] == {
        "name": "empty tail",
        "durations": [3, 5, 2, 7],
        "alignment": [0] * 3 + [1] * 5 + [2] * 2 + [3] * 7,
        "bucket": 40,  # 17 frames
        "samples": 10_200,  # 17 * 600
    }
    assert cases["room behind the text"]["durations"] == [3, 5, 2, 7, 0, 0, 0, 0]
    assert cases["room behind the text"]["alignment"] == cases["empty tail"]["alignment"]
    assert cases["a token of one frame"]["alignment"] == [0] * 4 + [1, 2] + [3] * 6
    assert (len(cases["a full bucket"]["alignment"]), cases["a full bucket"]["bucket"]) == (120, 120)
    assert (len(cases["one frame more than a bucket"]["alignment"]), cases["a full bucket"]["samples"]) == (121, 72_000)
    assert cases["one frame more than a bucket"]["bucket"] == 400
    assert cases["the largest bucket, full"]["bucket"] == 400
    assert (cases["one frame too many"]["bucket"], cases["one frame too many"]["samples"]) == (None, None)
    assert len(cases["long"]["durations"]) == 128


def test_they_are_computed_by_the_pipeline_and_the_file_holds_them(monkeypatch, tmp_path):
    assert json.loads(write_golden(tmp_path / "golden.json").read_text()) == golden_vectors()
    assert golden_vectors()["schema"] == 1
    monkeypatch.setattr(TwoStages, "bucket", lambda self, frames: ("10s", 500))
    assert {case["bucket"] for case in golden_vectors()["cases"]} == {500}
    assert np.float32(max(golden_vectors()["buckets"].values()) * 600 - 1) == 239_999, "no sample is lost to float32"
