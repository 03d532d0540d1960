"""What the texts of a delivery are held to, and the joins of one that is spoken in pieces."""

import numpy as np
import pytest

from kokoro_nb.delivery.pipeline import Piece
from kokoro_nb.listening.joins import joins
from kokoro_nb.studies.two_stage_npu.agreement import Agreement, SpokenPieces, TextAgreement


@pytest.mark.parametrize(("rounding", "limit"), [(1e-6, 2e-5), (3e-5, 6e-5)])
def test_what_the_inputs_may_be_off_by_follows_the_weights(rounding, limit):
    one = TextAgreement("Hi.", "", 9, True, 0.0, 0.0, 0.0, rounding, 0.0, 0.0)
    assert Agreement((one,)).inputs_limit == pytest.approx(limit)


def test_a_text_whose_audio_rounding_does_not_determine_is_named_and_not_judged():
    near, noisy = (TextAgreement(t, "", 9, True, 0.0, 0.0, 0.0, 0.0, 4.2, f) for t, f in (("Hi.", 1.0), ("Ho.", 4.0)))
    both, alone = Agreement((near, noisy)), Agreement((noisy,))
    assert both.worst_audio == near
    assert alone.worst_audio is None
    assert both.undetermined == (
        "rounding alone moves the audio nearly as far as noise does: 'Ho.' by the first voice 4.00 dB"
    )
    assert Agreement((near,)).undetermined == ""


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
