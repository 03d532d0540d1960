"""A model with a voice whose rows differ, and its deliveries, each made once."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from kokoro.custom_stft import CustomSTFT

from kokoro_nb.delivery.clients.acceptance import accept
from kokoro_nb.delivery.clients.client_delivery import deliver_to
from kokoro_nb.delivery.clients.client_folder import Material, vocabulary, write_client
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.delivery_check import check_delivery
from kokoro_nb.delivery.clients.hosts import imitate
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.patches import class_patches
from kokoro_nb.models.speaking import spread
from kokoro_nb.models.voices import load_voice
from tests.refusals import refused

SYMBOLS = "hˈɛlO, wˈɜɹld."


@pytest.fixture(scope="session")
def voiced(shallow, tmp_path_factory):
    """Return the shallow model, with two voices whose rows all differ, as those of trained weights do."""
    folder, source = tmp_path_factory.mktemp("voices"), torch.Generator().manual_seed(7)
    for name in ("alto", "bass"):
        torch.save(0.3 * torch.randn(510, 1, 256, generator=source), folder / f"{name}.pt")
    return replace(shallow, voice_file=lambda name: folder / f"{name}.pt", default_voice="alto")


@pytest.fixture(scope="session")
def deliveries(voiced, tmp_path_factory):
    """Return a function: client and dtype -> the folder of a delivery with both voices."""
    made = {}

    def delivered(client, dtype="float32"):
        key = (client, dtype)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("delivered") / "folder"
            deliver_to(voiced, client, made[key], ("alto", "bass"), dtype)
        return made[key]

    return delivered


def says_what_pytorch_says(voiced, client, folder, requests, least):
    """Require that a folder speaks as PyTorch does, to so many dB, and not with the wrong row of a voice."""
    assert check_delivery(folder, client).deviations == ()
    tables = [load_voice(voiced, request.voice) for request in requests]
    rows = accept(voiced, client, folder, requests, tables)
    assert all(row.durations == "equal" and row.from_har > least for row in rows)
    (other,) = accept(voiced, client, folder, requests[:1], [tables[0].roll(1, 0)])
    assert not (other.durations != "other" and other.from_har > least)
    return rows


def write_voice(*paths):
    """Write the same table into files as these clients read it."""
    rows = (0.3 * np.random.default_rng(0).standard_normal((510, 256))).astype("<f4")
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        rows.tofile(path)


def chained(host, client, folder, speed=1.0):
    """Speak with tiny programs whose tokens last two to four frames; return what was said, its ids and its row."""
    rules, request = contract(client), Request(SYMBOLS, "alto", speed=speed)
    said = host(folder, rules).utter(request)
    ids = [0, *(vocabulary(folder)[symbol] for symbol in SYMBOLS), 0]
    assert said.durations.tolist() == [max(1, round((2.2 + one % 3) / speed)) for one in ids]
    assert len(said.audio) == 600 * said.durations.sum()
    assert np.array_equal(imitate(client, folder, [request])[0], said.audio)
    assert check_delivery(folder, client).deviations == ()
    refused(r"There is no voice bass.bin", host(folder, rules).utter, Request("h", "bass"))
    return said, ids, np.fromfile(folder / "voices" / "alto.bin", "<f4").reshape(510, 256)[len(SYMBOLS) - 1]


class TinySpeaker(torch.nn.Module):
    """Three inputs, durations, an inverse STFT: all that the rules look at, in a thousandth of Kokoro's time."""

    def __init__(self, drawn=False):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(178, 22)
        self.stft, self.drawn = CustomSTFT(20, 5, 20), drawn

    def forward(self, input_ids, style, speed):
        lasting = torch.round((2 + (input_ids % 3).float()) / speed).clamp(min=1).long()
        x = self.embedding(input_ids)[0, spread(lasting)] + style[:, :22]
        x = x[:, None].expand(-1, 120, -1).reshape(-1, 22)
        x = torch.cat([x, x[-1:]]).transpose(0, 1)[None]
        magnitude = torch.exp(x[:, :11] - 3)
        if self.drawn:
            magnitude = magnitude * (1 + 0.1 * torch.randn_like(magnitude))
        audio = self.stft.inverse(magnitude, torch.sin(x[:, 11:]))
        return audio.reshape(input_ids.shape[0], -1).reshape(-1), lasting.reshape(-1)  # a size from elsewhere


def _export(path, patches, **settings):
    example = (torch.tensor([[0, 16, 43, 44, 0]]), torch.zeros(1, 256), torch.ones(1))
    axes = {"input_ids": {1: "tokens"}, "waveform": {0: "samples"}, "duration": {0: "tokens"}}
    names = {"input_names": ["input_ids", "style", "speed"], "output_names": ["waveform", "duration"]}
    with class_patches(patches), torch.no_grad():
        module = TinySpeaker(**settings).eval()
        torch.onnx.export(module, example, str(path), dynamo=False, opset_version=17, dynamic_axes=axes, **names)


@pytest.fixture(scope="session")
def tiny_programs(tmp_path_factory):
    """Return the folder of a speaker that keeps the contracts, one that is too quiet and one that draws."""
    place = tmp_path_factory.mktemp("tiny")
    _export(place / "good.onnx", ("exact_istft",))
    _export(place / "quiet.onnx", ())
    _export(place / "drawn.onnx", ("exact_istft",), drawn=True)
    return place


@pytest.fixture
def folder(good, tmp_path):
    """Return a copy of the folder `good` of the tests of a client, to be spoilt."""
    return Path(shutil.copytree(good, tmp_path / "folder"))


@pytest.fixture
def made(tiny_programs, tmp_path):
    """Return a function: client and source -> a folder of its own."""

    def make(client, source="good"):
        draw = np.random.default_rng(0)
        voices = {name: 0.3 * draw.standard_normal((510, 256)).astype(np.float32) for name in ("alto", "bass")}
        material = Material(
            tiny_programs / f"{source}.onnx", {"vocab": full_config()["vocab"]}, voices, "float32", ("hello",)
        )
        folder = tmp_path / client.replace("=", "")
        write_client(material, contract(client), folder)
        return folder

    return make
