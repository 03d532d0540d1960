import numpy as np
import pytest

from kokoro_nb.delivery.pipeline import Piece
from kokoro_nb.listening.speech_checks import joins
from kokoro_nb.studies.two_stage_npu.spoken_pieces import SpokenPieces

SR = 24_000


def spoken(symbols, *parts):
    time = np.arange(SR // 2) / SR
    audio = (0.3 * np.sin(2 * np.pi * 200 * time) * np.hanning(time.size)).astype(np.float32)
    pieces = tuple(Piece(part, np.array([2, *(3,) * len(part), 2]), audio) for part in parts)
    whole = np.concatenate([audio] * len(parts))
    return SpokenPieces(symbols, pieces, whole, joins([audio] * len(parts), whole, SR), SR)


@pytest.mark.parametrize(("parts", "lost"), [(("ab", "ba"), 0), (("ab", "b"), 1), (("ab ", "bc"), 1)])
def test_lost_phonemes_are_counted_and_spaces_are_not(parts, lost):
    assert spoken("ab ba", *parts).lost == lost


def test_a_loud_cut_is_sharper_than_a_join_at_rest():
    found = spoken("ab ba", "ab", "ba")
    assert found.shortest == 2
    assert found.loud_cut > 3 * found.sharpest
    assert len(found.rows()) == 1
    assert found.unjudged == ""


def test_without_a_join_or_a_pause_the_sharpness_is_not_judged(monkeypatch):
    alone = spoken("ab", "ab")
    assert np.isnan(alone.loud_cut)
    assert alone.unjudged == "the text is spoken in one piece; give a longer one, or shorter buckets"
    monkeypatch.setattr(SpokenPieces, "loud_cut", 0.5)
    assert "a hard cut is 0.5 times as sharp as the rest" in spoken("ab ba", "ab", "ba").unjudged
