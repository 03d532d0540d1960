"""The scripts that made the bundled voice and ear still run: a few steps of each on five sentences."""

import math
from importlib import import_module

import pytest
import torch
from training.corpus import VOICES, utterance
from training.ear.ear_corpus import TRAINED, make_clip
from training.ear.ear_trainer import EarSettings, EarTrainer
from training.trainer import Settings, Trainer, load_checkpoint, save_checkpoint

from kokoro_nb.models.architecture import full_config

SETTINGS = Settings(steps=8, prelude=3, batch=2, window=12, rate=2e-3, width=36, bfloat16=False, compiled=False)
EAR = {"batch": 6, "full_batch": 1, "warm_up": 5, "width": 24, "heads": 2, "encoder": 2, "decoder": 1}


@pytest.fixture(scope="module")
def tiny_texts():
    """Return five sentences of the closed vocabulary."""
    return "john sings", "the old dog is happy", "where is my hat?", "she found the yellow box", "open a window"


@pytest.fixture(scope="module")
def tiny_corpus(tiny_texts):
    """Return ten sentences by espeak: five, in two voices."""
    vocab = full_config()["vocab"]
    return [utterance(text, voice, vocab) for text in tiny_texts for voice in VOICES]


@pytest.mark.parametrize("module", ["training.voice", "training.ear.__main__"])
def test_the_command_line_is_there(module, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        import_module(module).main(["--help"])
    assert "--resume" in capsys.readouterr().out


def test_a_resumed_voice_is_the_one_that_was_never_stopped(tiny_corpus, tmp_path):
    whole, part, again = (Trainer(SETTINGS, tiny_corpus) for _ in range(3))
    expected = [whole.advance() for _ in range(6)]
    begun = [part.advance() for _ in range(3)]
    save_checkpoint(part, tmp_path)
    again.restore(load_checkpoint(tmp_path))
    assert begun + [again.advance() for _ in range(3)] == expected
    assert all(torch.equal(value, again.averaged()[name]) for name, value in whole.averaged().items())


def test_an_ear_is_trained(tiny_texts):
    clips = [make_clip(text.rstrip("?"), voice, 150, 50) for text in tiny_texts for voice in TRAINED[:2]]
    trainer = EarTrainer(
        EarSettings(steps=4, rate=4e-3, bfloat16=False, **EAR), sorted(clips, key=lambda one: one.mel.shape[1])
    )
    before = {name: value.clone() for name, value in trainer.averaged().items()}
    for _ in range(4):
        trainer.advance()
    assert any(not torch.equal(value, before[name]) for name, value in trainer.averaged().items())
    assert math.isfinite(sum(value.sum().item() for value in trainer.averaged().values()))
