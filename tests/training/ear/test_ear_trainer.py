from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.training.ear import ear_trainer as trainers
from kokoro_nb.training.ear.batch import collate, plain
from kokoro_nb.training.ear.ear_corpus import TRAINED
from kokoro_nb.training.ear.ear_trainer import EarTrainer, held_out_clips
from kokoro_nb.training.sentences import is_held_out
from kokoro_nb.training.trainer import load_checkpoint, save_checkpoint


def run(trainer, steps):
    return [trainer.advance() for _ in range(steps)]


def test_the_loss_falls_in_fifty_steps(tiny_ear, tiny_clips):
    trainer = EarTrainer(replace(tiny_ear, last=0.0), tiny_clips)
    batch = collate([plain(clip) for clip in tiny_clips], np.random.default_rng(0))

    def losses():
        with torch.no_grad():
            return {name: value.item() for name, value in trainer.learner.losses(batch, False).items()}

    before = losses()
    run(trainer, 50)
    after = losses()
    for name in ("text", "phoneme", "word"):
        assert after[name] < 0.7 * before[name], name
    assert after["attention"] < before["attention"]


def test_the_same_seed_gives_the_same_losses_and_another_does_not(tiny_ear, tiny_clips):
    first, second = (run(EarTrainer(tiny_ear, tiny_clips), 4) for _ in range(2))
    assert first == second
    assert run(EarTrainer(replace(tiny_ear, seed=1), tiny_clips), 2) != first[:2]


def test_a_resumed_run_is_the_run_that_was_never_stopped(tiny_ear, tiny_clips, tmp_path):
    settings = replace(tiny_ear, steps=6, last=0.4)
    whole = EarTrainer(settings, tiny_clips)
    expected = run(whole, 6)
    part = EarTrainer(settings, tiny_clips)
    begun = run(part, 3)
    save_checkpoint(part, tmp_path)
    again = EarTrainer(settings, tiny_clips)
    again.restore(load_checkpoint(tmp_path))
    assert begun + run(again, 3) == expected
    left, right = whole.averaged(), again.averaged()
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_whole_windows_come_now_and_then_and_at_the_end_every_other_step(tiny_ear, tiny_clips):
    trainer = EarTrainer(replace(tiny_ear, steps=20, whole_every=8, last=0.2), tiny_clips)
    whole = []
    for trainer.step in range(20):
        whole.append(trainer.whole())
    assert [at for at, is_whole in enumerate(whole) if is_whole] == [7, 15, 17, 19]


def test_the_run_is_measured_on_held_out_sentences_and_voices(tiny_ear, tiny_clips, tmp_path, monkeypatch):
    monkeypatch.setattr(trainers, "SAMPLED", 3)
    clips = held_out_clips(3)
    assert all(is_held_out(clip.text) for clip in clips)
    assert not {clip.voice for clip in clips} & set(TRAINED)
    trainer = EarTrainer(tiny_ear, tiny_clips)
    assert trainer.sample(tmp_path)["held_out_wer"] > 0.5, "nothing has been learnt yet"
    monkeypatch.setattr(trainers.Ear, "listen", lambda self, mel: [clip.text for clip in clips])
    assert trainer.sample(tmp_path) == {"held_out_wer": 0.0}


def test_no_clips_are_refused(tiny_ear):
    with pytest.raises(InputError, match="no clips"):
        EarTrainer(tiny_ear, [])
