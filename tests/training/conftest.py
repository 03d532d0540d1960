import pytest

from kokoro_nb.models.architecture import full_config
from kokoro_nb.training.corpus import VOICES, utterance
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
