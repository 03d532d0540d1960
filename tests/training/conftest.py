import pytest

from kokoro_nb.models.architecture import full_config
from kokoro_nb.training.corpus import VOICES, utterance
from kokoro_nb.training.ear.ear_corpus import TRAINED, make_clip
from kokoro_nb.training.ear.ear_trainer import EarSettings
from kokoro_nb.training.trainer import Settings

TEXTS = ("john sings", "the old dog is happy", "where is my hat?", "she found the yellow box", "open a window")


@pytest.fixture(scope="session")
def tiny_corpus():
    """Return ten sentences: five, in two voices."""
    vocab = full_config()["vocab"]
    return [utterance(text, voice, vocab) for text in TEXTS for voice in VOICES]


@pytest.fixture(scope="session")
def tiny():
    """Return the settings of a run that takes a second."""
    return Settings(steps=8, prelude=3, batch=2, window=12, rate=2e-3, width=36, bfloat16=False, compiled=False)


@pytest.fixture(scope="session")
def tiny_clips():
    """Return the same five sentences as the ear is given them, in order of length."""
    clips = [make_clip(text.rstrip("?"), voice, 150, 50) for text in TEXTS for voice in TRAINED[:2]]
    return sorted(clips, key=lambda clip: clip.mel.shape[1])


@pytest.fixture(scope="session")
def tiny_ear():
    """Return the settings of an ear that takes a second."""
    return EarSettings(
        **{"steps": 50, "whole_every": 50, "last": 0.1, "batch": 6, "full_batch": 1, "rate": 4e-3, "warm_up": 5},
        **{"width": 24, "heads": 2, "encoder": 2, "decoder": 1, "bfloat16": False},
    )
