import pytest

from kokoro_nb.training.ear.ear_corpus import TRAINED, make_clip
from kokoro_nb.training.ear.ear_trainer import EarSettings
from kokoro_nb.training.trainer import Settings


@pytest.fixture(scope="session")
def tiny():
    """Return the settings of a run that takes a second."""
    return Settings(steps=8, prelude=3, batch=2, window=12, rate=2e-3, width=36, bfloat16=False, compiled=False)


@pytest.fixture(scope="session")
def tiny_clips(tiny_texts):
    """Return the same five sentences as the ear is given them, in order of length."""
    clips = [make_clip(text.rstrip("?"), voice, 150, 50) for text in tiny_texts for voice in TRAINED[:2]]
    return sorted(clips, key=lambda clip: clip.mel.shape[1])


@pytest.fixture(scope="session")
def tiny_ear():
    """Return the settings of an ear that takes a second."""
    return EarSettings(
        **{"steps": 50, "whole_every": 50, "last": 0.1, "batch": 6, "full_batch": 1, "rate": 4e-3, "warm_up": 5},
        **{"width": 24, "heads": 2, "encoder": 2, "decoder": 1, "bfloat16": False},
    )
