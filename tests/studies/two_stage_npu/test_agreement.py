"""A delivery of two stages against its model, by itself, and in pieces."""

from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.delivery.pipeline import Piece
from kokoro_nb.listening.spectrum import UNRELATED
from kokoro_nb.listening.waveform import joins
from kokoro_nb.models.case import capture
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.studies.two_stage_npu import agreement
from kokoro_nb.studies.two_stage_npu.agreement import INPUTS_LIMIT, Agreement, SpokenPieces, TextAgreement
from tests.refusals import refused


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


TEXT = "Hi."


def _holds(check):
    return {"<=": check.value <= check.limit, ">=": check.value >= check.limit, "==": check.value == check.limit}[
        check.relation
    ]


def test_a_sound_delivery_holds_every_line(speaker):
    found = agreement.checklist(speaker, TEXT)
    assert not [check for check in found if check.skipped]
    assert not [check for check in found if not _holds(check)]
    assert [check.kind for check in found].count("interface") == len(speaker.contract.parts)
    refused("no room", agreement.checklist, speaker, "Hi hi hi.")


def _broken(speaker, monkeypatch, change):
    own = speaker.run

    def run(name, known):
        made = own(name, known)
        return {key: change(value.copy(), known) for key, value in made.items()} if name[:8] == "decoder_" else made

    monkeypatch.setattr(speaker, "run", run)
    return {check.kind for check in agreement.checklist(speaker, TEXT) if not _holds(check)}


def _noisy_end(audio, known):
    audio[:, -1] = 0.5
    return audio


def _one_nan(audio, known):
    audio[:, 0] = np.nan
    return audio


class _Remembers:
    """Stand for a program that adds what it was asked before."""

    def __init__(self):
        self.level = 0.0

    def __call__(self, audio, known):
        audio, self.level = audio + self.level, self.level + 1e-3
        return audio


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_noisy_end, "silence"),
        (_one_nan, "finite"),
        (lambda audio, known: audio * (1 + known["asr"].sum()), "padding"),
        (_Remembers(), "repeated"),
        (_Remembers(), "history"),
        (lambda audio, known: audio[:, :-600], "length"),
    ],
)
def test_a_broken_one_does_not(speaker, monkeypatch, change, kind):
    assert kind in _broken(speaker, monkeypatch, change)


def test_a_file_that_is_not_what_the_contract_says_is_found(speaker, monkeypatch):
    parts = speaker.contract.parts
    exchanged = {**parts, "prosody_1.5s": replace(parts["prosody_1.5s"], file=parts["duration"].file)}
    monkeypatch.setattr(speaker, "contract", replace(speaker.contract, parts=exchanged))
    found = {check.claim.split()[0]: check.value for check in agreement._interfaces(speaker)}
    assert found["prosody_1.5s"] > 0
    assert found["duration"] == found["decoder_1.5s"] == 0


def test_a_decoder_that_is_wrong_is_heard(speaker, shallow, monkeypatch):
    sound = speaker.sound
    monkeypatch.setattr(speaker, "sound", lambda given: 0.5 * sound(given))
    (found,) = agreement.against_model(speaker, shallow, [capture(shallow, TEXT, "seeded", g2p="espeak")]).texts
    assert found.durations
    assert found.distance > 3
    assert found.distance > found.distance_limit


def test_a_rewrite_that_is_wrong_in_eager_too_is_noticed(speaker, shallow, monkeypatch):
    def louder(*given):
        durations, d, t_en = forward(*given)
        return durations, d, 1.05 * t_en

    forward, inputs = DurationStage.forward, speaker.decoder_inputs
    monkeypatch.setattr(DurationStage, "forward", louder)
    louder_asr = lambda *given: inputs(*given) | {"asr": 1.05 * inputs(*given)["asr"]}  # noqa: E731
    monkeypatch.setattr(speaker, "decoder_inputs", louder_asr)
    (found,) = agreement.against_model(speaker, shallow, [capture(shallow, TEXT, "seeded", g2p="espeak")]).texts
    assert found.asr == pytest.approx(0.05, rel=1e-3)
    assert found.inputs > INPUTS_LIMIT > found.rounding


@pytest.mark.parametrize(
    ("floor", "limit", "determined"), [(0.2, 1.0, True), (1.5, 3.0, True), (9.0, UNRELATED / 2, False)]
)
def test_the_spectrum_is_held_to_the_floor_where_that_is_more_and_never_to_noise(floor, limit, determined):
    told = TextAgreement(TEXT, "seeded", 34, True, 1e-6, 1e-6, 1e-6, rounding=1e-6, distance=0.1, floor=floor)
    assert told.distance_limit == pytest.approx(limit)
    assert told.determined is determined, "where rounding makes noise the spectrum says nothing"
