"""Two programs with the frames between them left to the host say what one program says."""

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import speaking
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import FEATURES, DurationProgram, SynthesizerProgram, TextToAudio

IDS = (0, 50, 83, 54, 156, 57, 0)


@pytest.fixture(scope="module")
def kokoro():
    return load_model("narrow")


@torch.no_grad()
def test_both_say_what_one_says_whatever_stands_behind_the_text(kokoro):
    source, room = torch.Generator().manual_seed(1), 10
    voice, speed = 0.3 * torch.randn(1, 256, generator=source), torch.tensor([0.9])
    tokens = torch.full((1, room), 77)
    tokens[0, : len(IDS)] = torch.tensor(IDS)
    mask = torch.arange(room)[None] < len(IDS)
    with patched(kokoro.model):
        waveform, duration = TextToAudio(kokoro.model).eval()(tokens[:, : len(IDS)], voice, speed)
        lasting, d = DurationProgram(kokoro.model).eval()(tokens, mask, voice[:, 128:], speed)
        indices = torch.arange(room).repeat_interleave(lasting)
        module = SynthesizerProgram(kokoro.model).eval()
        audio = module(tokens, mask, indices, d, voice)
        module.shows_har = True
        again, har = module(tokens, mask, indices, d, voice)
    assert torch.equal(lasting[: len(IDS)], duration)
    assert not lasting[len(IDS) :].any()
    assert d.shape == (1, room, FEATURES)
    assert not d[:, len(IDS) :].any()
    assert audio.shape == (1, 1, len(waveform))
    assert torch.corrcoef(torch.stack([audio.reshape(-1), waveform]))[0, 1] > 0.8  # the phase is ill-conditioned
    assert torch.equal(again, audio)
    assert har.shape == (1, 22, 120 * len(indices) + 1)


def test_more_features_than_hosts_have_room_for_are_refused(kokoro, monkeypatch):
    monkeypatch.setattr(speaking, "FEATURES", 100)
    with pytest.raises(InputError, match="gives 208 features, and hosts have room for 100"):
        DurationProgram(kokoro.model)
