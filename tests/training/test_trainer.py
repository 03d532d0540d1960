import os
import signal
from dataclasses import replace

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.training.learner import draw_batch
from kokoro_nb.training.trainer import Trainer, load_checkpoint, save_checkpoint, train


def run(trainer, steps):
    return [trainer.advance() for _ in range(steps)]


def test_the_loss_falls(tiny, tiny_corpus):
    trainer = Trainer(replace(tiny, steps=200, prelude=15, rate=4e-3, warm_up=3), tiny_corpus)
    batch = draw_batch(trainer.corpus, 4, 12, seed=9, step=0)

    def losses():
        torch.manual_seed(0)
        with torch.no_grad():
            terms = trainer.learner.sound(batch, bfloat16=False) | trainer.learner.prosody(batch)
        return {name: value.item() for name, value in terms.items()}

    before = losses()
    run(trainer, 15)
    between = losses()
    run(trainer, 20)
    after = losses()
    for name in ("coarse", "ordinal", "f0", "energy"):
        assert between[name] < 0.9 * before[name], name
    for name in ("stft", "mel"):
        assert after[name] < 0.8 * before[name], name


def test_the_same_seed_gives_the_same_losses_and_another_does_not(tiny, tiny_corpus):
    first, second = (run(Trainer(tiny, tiny_corpus), 5) for _ in range(2))
    assert first == second
    assert run(Trainer(replace(tiny, seed=1), tiny_corpus), 2) != first[:2]


def test_a_resumed_run_is_the_run_that_was_never_stopped(tiny, tiny_corpus, tmp_path):
    whole = Trainer(tiny, tiny_corpus)
    expected = run(whole, 8)
    part = Trainer(tiny, tiny_corpus)
    begun = run(part, 4)
    save_checkpoint(part, tmp_path)
    again = Trainer(tiny, tiny_corpus)
    again.restore(load_checkpoint(tmp_path))
    assert begun + run(again, 4) == expected
    left, right = whole.averaged(), again.averaged()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_averaged_weights_follow_the_trained_ones(tiny, tiny_corpus):
    trainer = Trainer(tiny, tiny_corpus)
    before = {name: value.clone() for name, value in trainer.averaged().items()}
    run(trainer, 4)
    after, last = trainer.averaged(), trainer.learner.state_dict()
    assert not torch.equal(after["styles"], before["styles"])
    assert not torch.equal(after["styles"], last["styles"])


def test_sigterm_saves_and_ends_cleanly(tiny, tiny_corpus, tmp_path):
    trainer = Trainer(replace(tiny, steps=1000), tiny_corpus)
    advance = trainer.advance

    def interrupted():
        if trainer.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return advance()

    trainer.advance = interrupted
    assert train(trainer, tmp_path) is False
    assert load_checkpoint(tmp_path)["step"] == trainer.step == 3


def test_a_window_longer_than_a_sentence_is_refused(tiny, tiny_corpus):
    with pytest.raises(InputError, match="shortest sentence has"):
        Trainer(replace(tiny, window=500), tiny_corpus)


def test_a_loss_that_is_not_finite_stops_the_run(tiny, tiny_corpus):
    trainer = Trainer(tiny, tiny_corpus)
    trainer.learner.coarse.weight.data.fill_(torch.nan)
    with pytest.raises(InputError, match="loss is nan at step 0"):
        trainer.advance()
