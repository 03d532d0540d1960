import pytest
import torch
import whisper

from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.training.ear.batch import draw_ear_batch
from kokoro_nb.training.ear.ear_model import NEVER, Ear, checkpoint
from kokoro_nb.training.ear.ear_trainer import EarTrainer
from kokoro_nb.training.ear.tokens import tokenizer, trained_tokens

SHAPE = (24, 2, (2, 2))


@pytest.fixture(scope="module")
def ear():
    return Ear(0, *SHAPE).eval()


@pytest.fixture(scope="module")
def heard(tiny_clips):
    return draw_ear_batch(tiny_clips, 2, 0, 0, full=True)


@torch.no_grad()
def test_the_arithmetic_is_whispers_own(ear, heard):
    logits, seen = ear.decode(heard.given, ear.encode(heard.mel)[0])
    torch.testing.assert_close(logits, ear.whisper(heard.mel, heard.given), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(seen.sum(-1), torch.ones(seen.shape[:2]))


@torch.no_grad()
def test_a_short_window_has_the_first_positions_of_the_whole_one(ear, heard):
    encoder, short = ear.whisper.encoder, heard.mel[:, :, :200]
    kept = encoder.positional_embedding
    encoder.positional_embedding = kept[:100]
    try:
        expected = encoder(short)
    finally:
        encoder.positional_embedding = kept
    torch.testing.assert_close(ear.encode(short)[0], expected, atol=2e-5, rtol=1e-5)


def test_the_file_is_whispers_and_says_what_was_trained_alone(ear, heard, tmp_path):
    path = tmp_path / "mini.pt"
    torch.save(checkpoint(ear.state_dict(), *SHAPE), path)
    ids = list(trained_tokens().ids)
    given = torch.tensor(ids)[heard.given]
    for model in (load_whisper(path), whisper.load_model(str(path), device="cpu")):
        assert all(bool(torch.isfinite(t).all()) for t in model.state_dict().values())
        with torch.no_grad():
            logits = model(heard.mel, given)
            # weights rounded to float16
            torch.testing.assert_close(logits[..., ids], ear.whisper(heard.mel, heard.given), atol=2e-2, rtol=0)
        others = torch.ones(logits.shape[-1], dtype=torch.bool)
        others[ids] = False
        assert (logits[..., others] - NEVER).abs().max() < 1e-3
        assert whisper.transcribe(model, torch.zeros(16_000), language="en", temperature=0.0, fp16=False) is not None


def test_training_leaves_the_free_channel_alone(tiny_ear, tiny_clips):
    trainer = EarTrainer(tiny_ear, tiny_clips)
    for _ in range(3):
        trainer.advance()
    for state in (trainer.learner.state_dict(), trainer.averaged()):
        assert not state["whisper.decoder.token_embedding.weight"][:, 0].any()
        assert state["whisper.decoder.ln.weight"][0] == 0
        assert state["whisper.decoder.ln.bias"][0] == 1


def test_attention_that_goes_astray_costs_more(ear, tiny_clips):
    batch = draw_ear_batch(tiny_clips, 4, 0, 1)
    with torch.no_grad():
        right = ear.losses(batch, False)
        places = batch.places.clone()
        places[..., 1] += batch.mel.shape[2]  # all that follows counts too
        wide = ear.losses(type(batch)(**(vars(batch) | {"places": places})), False)
    assert wide["attention"] < right["attention"]
    assert wide["text"] == right["text"]


def test_listening_stops_at_a_timestamp_and_skips_what_is_no_text(ear, heard, monkeypatch):
    tokens = trained_tokens()
    said = iter([*tokens.words["john"], *tokens.words["sings"], tokens.times[9], *tokens.words["dog"]])

    def decode(given, features):
        logits = torch.zeros(*given.shape, len(tokens.ids))
        logits[:, -1, next(said)] = 1
        return logits, None

    monkeypatch.setattr(ear, "decode", decode)
    assert ear.listen(heard.mel, longest=4) == ["john sings"] * 2
    assert tokenizer().decode([]) == ""
