"""Golden vectors as arithmetic has them, and texts cut into pieces and joined."""

import json

import numpy as np
import pytest

from kokoro_nb.delivery.golden import golden_vectors, write_golden
from kokoro_nb.delivery.pipeline import TwoStages, cut, joined
from tests.refusals import refused


def test_the_vectors_are_what_arithmetic_says():
    cases = {case["name"]: case for case in golden_vectors()["cases"]}
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
    monkeypatch.setattr(TwoStages, "bucket", lambda self, frames: ("10s", 500))
    assert {case["bucket"] for case in golden_vectors()["cases"]} == {500}


LONG = "ab cd ef, gh ij. kl mn? op"


def up_to(count):
    return lambda some: len(some) <= count


@pytest.mark.parametrize("room", [2, 3, 5, 6, 9, 12, 16, 20, 25, 26])
def test_no_phoneme_is_lost_and_every_piece_fits(room):
    symbols = LONG.replace(",", "").replace(".", "").replace("?", "") if room == 2 else LONG
    found = cut(symbols, up_to(room))
    assert " ".join(found) == symbols
    assert max(map(len, found)) <= room


def test_it_is_cut_at_the_longest_pauses_first():
    assert cut(LONG, up_to(26)) == [LONG]
    assert cut(LONG, up_to(16)) == ["ab cd ef, gh ij.", "kl mn? op"]
    assert cut(LONG, up_to(9)) == ["ab cd ef,", "gh ij.", "kl mn? op"]
    assert cut(LONG, up_to(6)) == ["ab cd", "ef,", "gh ij.", "kl mn?", "op"]
    refused("no room for the word 'abcdef'", cut, "ab abcdef", up_to(5))


def test_a_join_has_no_step_and_keeps_every_sample_but_at_its_sides():
    one, other = np.ones(1200, np.float32), -np.ones(1800, np.float32)
    made = joined([one, other], 24_000)
    assert made.shape == (3000,)
    assert np.abs(np.diff(made)).max() < 0.01  # a hundred and twenty samples from 1 to 0
    assert made[1199] == made[1200] == 0
    assert (made[:1080] == 1).all()
    assert (made[1320:] == -1).all()
    assert one[-1] == 1, "what was given stays as it is"
    assert np.array_equal(joined([one], 24_000), one)
