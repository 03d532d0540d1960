"""Each claim of the old notes has one answer, its figures are measured, and a verdict follows from them."""

from dataclasses import replace

import pytest
import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import build, full_config
from kokoro_nb.studies.old_claims import padding_answers as module
from kokoro_nb.studies.old_claims import reported_claims as reported
from kokoro_nb.studies.old_claims import runtime_answers
from kokoro_nb.studies.old_claims.architecture_answers import _counted, flops
from kokoro_nb.studies.old_claims.claim_answers import answer_claims, joined
from kokoro_nb.studies.old_claims.padding_answers import padded_runs, padding_answers


@pytest.fixture(scope="module")
def padded(shallow, shallow_case):
    """Return the answers by number, for weights that are made here and for published ones, from the same runs."""
    runs = padded_runs(shallow, shallow_case, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "padded_runs", lambda *given: runs)
        answers = {own: padding_answers(shallow, shallow_case, 0, own) for own in (True, False)}
    return {own: {one.number: one for one in some} for own, some in answers.items()}


def test_what_depends_on_weights_gets_its_verdict_with_published_ones(padded):
    assert padded[True]["A1"].verdict == "needs published weights"
    assert padded[False]["A1"].verdict in ("another cause", "refuted")
    assert padded[False]["A1"].figures == padded[True]["A1"].figures


def test_the_work_of_an_lstm_is_counted_and_grows_with_the_text():
    with torch.device("meta"):
        lstm, x = torch.nn.LSTM(8, 16, batch_first=True), torch.zeros(1, 5, 8)
        assert _counted(lambda: lstm(x)) == 2 * 5 * 4 * 16 * (8 + 16)
    full = build(full_config())
    short, long = (flops(full, tokens, 48) for tokens in (10, 20))
    assert long["duration"] > 1.8 * short["duration"]
    assert long["acoustic"] == short["acoustic"]


def test_channels_that_vary_lose_nothing(monkeypatch):
    monkeypatch.setattr(runtime_answers, "DEVIATION", 1.0)
    found = {one.number: one for one in runtime_answers.runtime_answers(0)}
    assert (found["B1"].verdict, found["B2"].verdict, found["B3"].verdict) == ("refuted",) * 3


def test_an_export_that_fails_answers_nothing(monkeypatch):
    failure = Failure(runtime_answers.TVM, "run", "RuntimeError", "it failed")
    monkeypatch.setattr(runtime_answers, "outputs_of", lambda *given: failure)
    with pytest.raises(InputError, match="about TVM cannot be answered: tvm-unfused failed"):
        runtime_answers.runtime_answers(0)


def test_a_claim_without_an_answer_or_with_two_is_an_error(padded):
    (one,) = (padded[True]["A1"],)
    every = tuple(replace(one, number=claim.number) for claim in reported.CLAIMS)
    assert [each.answer.number for each in joined(every)] == [claim.number for claim in reported.CLAIMS]
    with pytest.raises(InputError, match=r"without one answer each: A2\."):
        joined(tuple(each for each in every if each.number != "A2"))
    with pytest.raises(InputError, match=r"without one answer each: B1\."):
        joined((*every, replace(one, number="B1")))


def test_a_text_that_is_too_short_is_refused(shallow, shallow_case):
    tensors = {**shallow_case.tensors, "asr": shallow_case.tensors["asr"][..., :9]}
    with pytest.raises(InputError, match=r"lasts 9 frames.*give a longer one"):
        answer_claims(shallow, replace(shallow_case, tensors=tensors))
