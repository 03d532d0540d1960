"""Each claim of the old notes has one answer, and what depends on published weights is open without them."""

import torch

from kokoro_nb.studies.old_claims import CLAIMS, WEIGHTS, AnsweredClaims, _counted, flops
from tests.refusals import refused


def test_what_depends_on_weights_gets_its_verdict_with_published_ones():
    own, published = AnsweredClaims("mini"), AnsweredClaims("hexgrad/Kokoro-82M")
    for claims in (own, published):
        claims.answer("A1", "another cause", "peak 1")
        claims.answer("B5", "another cause", "0.7 and 0.3")  # in PyTorch alone, whatever the weights
    assert own.verdicts == {"A1": WEIGHTS, "B5": "another cause"}
    assert published.verdicts == {"A1": "another cause", "B5": "another cause"}
    assert own.counts()[0] == {"verdict": WEIGHTS, "claims": 1, "which": "A1"}
    (row,) = published.table("A")["rows"]
    assert (row["claim"], row["measured here"]) == ("A1", "peak 1")
    assert row["verdict"].startswith("another cause. Full scale is 1: silence")


def test_a_claim_that_nobody_made_and_a_second_answer_are_errors():
    claims = AnsweredClaims("mini")
    for number in CLAIMS:
        refused(f"There is no claim A5 to be answered; there are {number}", claims.answer, "A5", "confirmed", "")
        claims.answer(number, "refuted", "")
        refused(f"There is no claim {number} to be answered", claims.answer, number, "refuted", "")
    assert [row["claim"] for note in "ABDE" for row in claims.table(note)["rows"]] == [*CLAIMS] == [*claims.verdicts]


def test_the_work_of_an_lstm_is_counted_and_grows_with_the_text(seeded):
    with torch.device("meta"):
        lstm, x = torch.nn.LSTM(8, 16, batch_first=True), torch.zeros(1, 5, 8)
        assert _counted(lambda: lstm(x)) == 2 * 5 * 4 * 16 * (8 + 16)
    short, long = (flops(seeded.model, tokens, 48) for tokens in (10, 20))
    assert long["duration"] > 1.8 * short["duration"]
    assert long["acoustic"] == short["acoustic"]
