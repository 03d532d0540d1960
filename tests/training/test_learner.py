import numpy as np
import pytest
import torch

from kokoro_nb.models.architecture import STYLE
from kokoro_nb.training.learner import WEIGHTS, Learner, draw_batch, total


@pytest.fixture(scope="module")
def ordered(tiny_corpus):
    return sorted(tiny_corpus, key=lambda u: int(u.durations.sum()))


def test_a_batch_is_that_of_its_seed_and_step(ordered):
    first, other = draw_batch(ordered, 3, 16, 0, 5), draw_batch(ordered, 3, 16, 0, 6)
    again = draw_batch(ordered, 3, 16, 0, 5)
    assert all(torch.equal(a, b) for a, b in zip(vars(first).values(), vars(again).values(), strict=True))
    assert not torch.equal(first.audio, other.audio)


def test_windows_are_cut_from_the_audio_where_they_say(ordered):
    batch = draw_batch(ordered, 4, 16, 0, 1)
    frames = batch.places.shape[1]
    assert batch.audio.shape == (4, 16 * 600)
    assert batch.f0.shape == batch.energy.shape == (4, 2 * frames)
    assert (batch.starts + 16 <= frames).all()
    for row in range(4):
        ids = batch.ids[row, : batch.lengths[row]].tolist()
        said = next(u for u in ordered if u.ids.tolist() == ids and u.voice == batch.voices[row])
        start = 600 * int(batch.starts[row])
        assert torch.equal(batch.audio[row], torch.from_numpy(said.audio[start : start + 9600]))
        whole = np.repeat(np.arange(len(ids)), said.durations)
        assert batch.places[row].tolist() == whole[:frames].tolist()


def test_the_losses_are_those_of_the_package_s_own_forward(ordered):
    """Durations, F0 and energy in a batch of one are what `forward_with_tokens` works with."""
    learner = Learner(0, width=36).eval()
    said = ordered[0]
    batch = draw_batch([said], 1, 16, 0, 0)
    style = learner.styles[batch.voices].detach()
    kept = {}
    predictor = learner.model.predictor
    predictor.duration_proj.register_forward_hook(lambda m, i, o: kept.setdefault("logits", []).append(o))
    with torch.no_grad():
        _, durations = learner.model.forward_with_tokens(batch.ids, style)
        terms = learner.prosody(batch)
    assert torch.equal(kept["logits"][0], kept["logits"][1])
    expected = (kept["logits"][0].sigmoid().sum(-1) - batch.durations).abs().mean()
    assert terms["duration"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert durations.shape == (len(said.ids),)


def test_sound_and_prosody_teach_their_own_half_of_the_style(ordered):
    learner = Learner(0, width=36).train()
    batch = draw_batch(ordered, 2, 16, 0, 0)
    total(learner.sound(batch, bfloat16=False)).backward()
    grad = learner.styles.grad[batch.voices]
    assert grad[:, :STYLE].abs().sum() > 0
    assert not grad[:, STYLE:].any()
    learner.zero_grad()
    total(learner.prosody(batch)).backward()
    grad = learner.styles.grad[batch.voices]
    assert grad[:, STYLE:].abs().sum() > 0
    assert not grad[:, :STYLE].any()


def test_every_trained_weight_is_reached_by_a_gradient(ordered):
    learner = Learner(0, width=36).train()
    batch = draw_batch(ordered, 2, 16, 0, 0)
    terms = learner.sound(batch, bfloat16=False) | learner.prosody(batch)
    assert terms.keys() == WEIGHTS.keys()
    total(terms).backward()
    unreached = [n for n, p in learner.named_parameters() if p.requires_grad and p.grad is None]
    assert [n for n in unreached if "pooler" not in n] == []


def test_without_the_generator_only_the_coarse_spectrum_is_compared(ordered):
    learner = Learner(0, width=36).train()
    before = learner.model.decoder.generator
    terms = learner.sound(draw_batch(ordered, 2, 16, 0, 0), bfloat16=False, generate=False)
    assert list(terms) == ["coarse"]
    assert learner.model.decoder.generator is before
