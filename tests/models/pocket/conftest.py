"""The small PocketTTS, what the package itself says with it, and the same through our steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_nb.models.pocket import pocket_steps
from kokoro_nb.models.pocket.generation import speak

TEXT = "Hello world, this is a test."
VOICE = 5  # embeddings of a voice, which come before the text
SAMPLER = 4  # steps of the sampler: a wrong time does not show at one
ROOM = 16  # tokens a call: voice and text take two calls, the second with room to spare


@pytest.fixture(scope="session")
def voice(pocket):
    return torch.randn(1, VOICE, pocket.flow_lm.dim, generator=torch.Generator().manual_seed(7))


def what_to_say(model, voice, frames):
    said = pocket_steps.utterance(model, TEXT, voice, sampler=SAMPLER)
    return replace(said, noise=pocket_steps.draw_noise(model, frames, seed=0))


def host_for(model, said, endless=True):
    """Return a host with room for all of `said` and no more, which does not listen to the end of speech."""
    frames = len(said.noise)
    host = pocket_steps.host_of(model, said.voice.shape[1] + said.ids.shape[1] + frames, frames, ROOM)
    return replace(host, stop_above=float("inf")) if endless else host


def say_package(model, voice, frames):
    """Have the package's own code speak."""
    return pocket_steps.package_speech(model, what_to_say(model, voice, frames), stop=False)


def say_in_steps(model, voice, frames, one_by_one=False):
    """Speak by the steps alone."""
    said = what_to_say(model, voice, frames)
    host = host_for(model, said)
    return speak(pocket_steps.eager_steps(pocket_steps.step_modules(model, host)), host, said, one_by_one=one_by_one)


def of_peak(found, expected):
    """Return the largest difference as a share of the peak of what was expected."""
    found, expected = np.asarray(found), np.asarray(expected)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def worst(found, expected):
    """Return the largest difference of two utterances, as a share of the peak, by what differs."""
    pairs = {
        **{name: (getattr(found, name), getattr(expected, name)) for name in ("latents", "frames", "stops")},
        **{f"language {name}": (found.language[name], expected.language[name]) for name in expected.language},
        **{f"decoder {name}": (found.decoder[name], expected.decoder[name]) for name in expected.decoder},
    }
    return {name: of_peak(*pair) for name, pair in pairs.items()}
