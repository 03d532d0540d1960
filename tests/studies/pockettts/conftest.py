"""The small PocketTTS and one short utterance of it, said by the package and by the steps."""

from dataclasses import replace

import pytest
import torch

from kokoro_nb.models.pocket.pocket_steps import eager_steps
from kokoro_nb.studies.pockettts.port_mistakes import attempt
from kokoro_nb.studies.pockettts.step_loops import reference
from tests.models.pocket.conftest import what_to_say

FRAMES, ROOM = 24, 16


@pytest.fixture(scope="session")
def said(pocket):
    voice = torch.randn(1, 5, pocket.flow_lm.dim, generator=torch.Generator().manual_seed(7))
    return replace(what_to_say(pocket, voice, FRAMES), sampler=2)


@pytest.fixture(scope="session")
def right(pocket, said):
    return reference(pocket, said, ROOM)


@pytest.fixture(scope="session")
def tried(right):
    return attempt(eager_steps(right.modules), right.host, right.utterance)


@pytest.fixture
def brief(tried):
    return replace(tried, utterance=replace(tried.utterance, noise=tried.utterance.noise[:2]))
