"""Folders for FluidAudio: seven packages of any length, chained as the client does, and what deviates in them named."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_nb.delivery.clients import known_clients as client
from kokoro_nb.delivery.clients.client_delivery import deliver_to, read_delivery
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.delivery_check import check_delivery
from kokoro_nb.delivery.clients.exported_programs import package, signatures
from kokoro_nb.delivery.clients.hosts import FluidAudioHost
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.programs import StageProgram
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.padding import held
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.seven_stages import SourcesStage, SpreadStage, TailStage
from tests.delivery.clients.conftest import SYMBOLS, chained, says_what_pytorch_says, write_voice

RULES = contract("fluidaudio")
SIGNATURES = client.signed(client.STAGES, bert=4, hidden=4, features=132, wide=1, near=1)


class TinyAlbert(torch.nn.Module):
    def forward(self, input_ids, attention_mask):
        return (input_ids * attention_mask)[..., None].float() * torch.ones(4)


class TinyPostAlbert(torch.nn.Module):
    """Each token lasts two to four frames over the speed, before rounding."""

    def forward(self, bert_dur, input_ids, style_s, speed, attention_mask):
        ids = input_ids.float()
        lasting = (2.2 + ids - 3 * torch.floor(ids / 3)) / speed * attention_mask
        d = bert_dur[..., :1] / 200 + 0.01 * style_s[:, None]
        return lasting, torch.cat([d, d[..., :4]], dim=2), (bert_dur / 200).transpose(1, 2)


class TinyPitch(torch.nn.Module):
    def forward(self, en, style_s):
        return held(en[:, 0], 2), held(en[:, 1], 2) + 0 * style_s[:, :1]


class TinySources(torch.nn.Module):
    def forward(self, F0_curve, style_timbre):
        fast = held(F0_curve[:, None], 60) + 0.01 * style_timbre[:, None, :1]
        return held(F0_curve[:, None], 10) * 1.0, torch.cat([fast, fast[..., :1]], dim=2)


class TinyVocoder(torch.nn.Module):
    def forward(self, asr, F0_curve, N_pred, x_source_0, x_source_1, style_timbre):
        seen = (asr.mean() + F0_curve.mean() + N_pred.mean() + x_source_0.mean() + style_timbre.mean()) * 1e-3
        return seen.reshape(1), x_source_1 + seen


class TinyTail(torch.nn.Module):
    def forward(self, x_pre):
        return held(x_pre[..., :-1], 5).reshape(-1) * 1.0


class Turned(SourcesStage):
    """Its atan2 gives 0 for pi."""

    def __init__(self, generator):
        super().__init__(generator)
        transform, self.stft = generator.stft.transform, torch.nn.Module()

        def turned(signal):
            magnitude, phase = transform(signal)
            return magnitude, phase * (torch.abs(phase) < 3.14).float()

        self.stft.transform = turned


QUIET = [one for one in EXPORT_PATCHES if one != "exact_istft"]
MODULES = {
    client.ALBERT: TinyAlbert,
    client.POST_ALBERT: TinyPostAlbert,
    client.ALIGNMENT: SpreadStage,
    client.PROSODY: TinyPitch,
    client.NOISE: TinySources,
    client.VOCODER: TinyVocoder,
    client.TAIL: TinyTail,
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seven")
    for name, module in MODULES.items():
        package(module().eval(), SIGNATURES[name], RULES.ranges, True, folder / name)
    write_voice(folder / "voices" / "alto.bin", folder / client.FIRST_VOICE)
    (folder / "vocab.json").write_text(json.dumps(full_config()["vocab"]), encoding="utf-8")
    return folder


def test_a_package_takes_any_length(good):
    stage = StageProgram(good / client.ALIGNMENT)
    for lasting in ([1], [2, 1, 3], [5] * 40):
        tokens = len(lasting)
        d = np.arange(tokens * 132, dtype=np.float16).reshape(1, tokens, 132) % 64
        made = stage({"pred_dur": np.array([lasting]), "d": d, "t_en": d[..., :4].swapaxes(1, 2)})
        assert made["en"].dtype == np.float16
        assert np.array_equal(made["en"][0].T, np.repeat(d[0], lasting, axis=0))


def test_it_is_chained_as_the_client_chains(good):
    said, ids, row = chained(FluidAudioHost, "fluidaudio", good, speed=0.8)
    assert list(said.ids) == ids
    assert np.array_equal(said.values["style_s"][0], row[128:])


def _program(name, module, signature=None, ranges=None):
    def broken(folder):
        shutil.rmtree(folder / name)
        package(module.eval(), signature or SIGNATURES[name], ranges or RULES.ranges, True, folder / name)

    return broken


def _retyped(name, of, dtype):
    inputs, outputs = SIGNATURES[name]
    return tuple(rule if rule.name != of else type(rule)(of, dtype, rule.shape) for rule in inputs), outputs


# what every client's folder and audio may have wrong is tested with others
BROKEN = {
    "no package": (lambda f: shutil.rmtree(f / client.TAIL / "Data"), "program unreadable"),
    "no af_heart.bin": (lambda f: (f / client.FIRST_VOICE).unlink(), "file missing"),
    "x_pre of float16": (_program(client.TAIL, TinyTail(), _retyped(client.TAIL, "x_pre", "float16")), "input dtype"),
    "one and a half of the room": (
        _program(client.TAIL, TinyTail(), None, {**RULES.ranges, "fast": (121, 24_001, 120)}),
        "length limits",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named(folder, name):
    change, rule = BROKEN[name]
    change(folder)
    assert rule in [one.rule for one in check_delivery(folder, "fluidaudio").deviations]


@pytest.mark.slow  # seven stages of the narrow model are converted, and a twin of one
def test_a_delivery_says_what_pytorch_says(voiced, tmp_path):
    deliver_to(voiced, "fluidaudio", tmp_path / "folder", ("alto", "bass"))
    assert read_delivery(tmp_path / "folder").voices == ("alto", "bass")
    requests = [Request(SYMBOLS, "bass", 1, 0.8), Request("h", "alto", 0, 1.5)]
    least = 50  # between the stages stands float16, 2^-12 of each value
    says_what_pytorch_says(voiced, "fluidaudio", tmp_path / "folder", requests, least)
    for name, module, patches, rule in (
        (client.TAIL, TailStage, QUIET, "level"),
        (client.NOISE, Turned, EXPORT_PATCHES, "phase"),
    ):
        broken = Path(shutil.copytree(tmp_path / "folder", tmp_path / rule))
        shutil.rmtree(broken / name)
        with patched(voiced.model, patches):
            stage = module(voiced.model.decoder.generator).eval()  # whose STFT is another one outside
            package(stage, signatures(voiced, RULES)[name], RULES.ranges, True, broken / name)
        assert rule in [one.rule for one in check_delivery(broken, "fluidaudio").deviations]
