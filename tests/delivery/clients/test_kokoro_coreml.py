"""Folders for kokoro-coreml: four stages by size, chained as the client does, and what deviates in them named."""

import json
import shutil

import numpy as np
import pytest
import torch
from kokoro.custom_stft import CustomSTFT

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients import known_clients as client
from kokoro_nb.delivery.clients.client_delivery import deliver_to, read_delivery
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.delivery_check import check_delivery
from kokoro_nb.delivery.clients.exported_programs import NoiseChoice, package
from kokoro_nb.delivery.clients.hosts import KokoroCoreMlHost, hosted_har, normal_noise
from kokoro_nb.delivery.clients.known_clients import Room, contract
from kokoro_nb.delivery.clients.programs import StageProgram
from kokoro_nb.models import model_cuts
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.padding import held, of_frames
from kokoro_nb.models.patches import class_patches
from tests.delivery.clients.conftest import SYMBOLS, chained, says_what_pytorch_says, write_voice
from tests.refusals import refused

CLIENT = "kokoro-coreml"
RULES = contract(CLIENT)
SIGNATURES = client.sized_programs(22)
DURATIONS, (PITCH, TRUNK, GENERATOR) = client.durations_path(32), client.frame_stages(3)


class TinyDurations(torch.nn.Module):
    """Each token lasts two to four frames over the speed."""

    output_names = ("pred_dur", "d", "t_en", "s", "ref_s_out")

    def forward(self, input_ids, attention_mask, ref_s, speed):
        ids = input_ids.float() * attention_mask
        lasting = torch.round((2.2 + ids - 3 * torch.floor(ids / 3)) / speed).clamp(min=1) * attention_mask
        seen = (ids / 200 + 0.01 * ref_s[:, :1]) * attention_mask
        features = seen[..., None].expand(1, 32, 640) * 1.0
        return lasting.int(), features, features[..., :512].transpose(1, 2) * 1.0, ref_s[:, 128:] * 1.0, ref_s * 1.0


class TinyPitch(torch.nn.Module):
    output_names = ("F0_pred", "N_pred")

    def forward(self, en, s):
        return 50 * held(en[:, 0], 2), held(en[:, 1], 2) + 0 * s[:, :1]


class TinyTrunk(torch.nn.Module):
    output_names = ("x_pre",)

    def forward(self, asr, f0, n_input, ref_s, mask):
        pitched = 0.001 * f0 + 0.01 * n_input + 0.1 * ref_s[:, None, :1]
        return (held(asr[:, :22], 2) + pitched) * held(mask, 2)


class TinyGenerator(torch.nn.Module):
    """What every file does last: exponential, sine, inverse STFT; the source at a hundredth."""

    output_names, masked = ("waveform",), True

    def __init__(self):
        super().__init__()
        self.stft = CustomSTFT(20, 5, 20)

    def forward(self, x_pre, ref_s, har, mask):
        mask = mask if self.masked else mask * 0 + 1
        slow = held(mask, 60)
        fast = torch.cat([slow[..., :1], slow], dim=2)
        x = held(x_pre, 60)
        x = (torch.cat([x[..., :1], x], dim=2) + 0.01 * har) * fast
        magnitude, phase = torch.exp(x[:, :11] - 3) * fast, torch.sin(x[:, 11:])
        valid = of_frames(120, torch.round(mask.sum(dim=(1, 2)) / 2).int())
        return model_cuts.waveform(self, magnitude, phase, valid) + 0 * ref_s[:, :1]


class Unmasked(TinyGenerator):
    masked = False


class Maskless(TinyTrunk):
    def forward(self, asr, f0, n_input, ref_s):  # and no mask
        return super().forward(asr, f0, n_input, ref_s, torch.ones_like(asr[:, :1]))


MODULES = {DURATIONS: TinyDurations, PITCH: TinyPitch, TRUNK: TinyTrunk, GENERATOR: TinyGenerator}


def _write(folder, name, module, inputs=None):
    shutil.rmtree(folder / name, ignore_errors=True)
    with class_patches(("exact_istft",)):
        package(module.eval(), (inputs or SIGNATURES[name][0], SIGNATURES[name][1]), {}, True, folder / name)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sized")
    for name, module in MODULES.items():
        _write(folder, name, module())
    write_voice(folder / "voices" / "alto.bin")
    (folder / "runtime").mkdir()
    (folder / client.COREML_VOCAB).write_text(json.dumps({"vocab": full_config()["vocab"]}), encoding="utf-8")
    source = {"linear_weights": [0.1] * 9, "linear_bias": 0.0}
    (folder / client.SOURCE).write_text(json.dumps(source), encoding="utf-8")
    return folder


def test_it_is_chained_as_the_client_chains(good):
    said, ids, row = chained(KokoroCoreMlHost, CLIENT, good, speed=0.8)
    assert list(said.ids) == ids
    assert said.values["attention_mask"].tolist() == [[1] * len(ids) + [0] * (32 - len(ids))]
    assert np.array_equal(said.values["ref_s"][0], row)
    frames = int(said.durations.sum())
    assert said.values["mask"].sum() == frames
    assert not said.values["en"][..., frames:].any()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request("h" * 31, "alto"), "no program for 33 tokens, at most 32"),
        (Request("h" * 30, "alto", speed=0.5), r"no program for \d.\d s of speech, at most 3"),
    ],
)
def test_what_the_client_cannot_speak_is_one_sentence(good, request_, said):
    refused(said, KokoroCoreMlHost(good, RULES).utter, request_)


def test_the_source_has_its_pitch_and_its_noise():
    weights = [1.0] + [0.0] * 8
    f0 = np.array([200.0] * 80 + [0.0] * 80)
    har = hosted_har(f0, weights, 0.0, 42)
    assert har.shape == (1, 22, 60 * 160 + 1)
    assert not np.array_equal(har, hosted_har(f0, weights, 0.0, 43))
    spectrum = torch.polar(torch.tensor(har[:, :11]), torch.tensor(har[:, 11:]))
    signal = torch.istft(spectrum, 20, 5, 20, torch.hann_window(20))[0].numpy()
    voiced = np.abs(np.fft.rfft(signal[:24_000]))
    assert voiced.argmax() == 200
    assert abs(signal[24_100:].std() / (0.1 / 3) - 1) < 0.05  # tanh leaves so small a signal as it is


def test_the_generator_of_the_noise_is_the_published_one():
    # SplitMix64's finaliser of 0, then one step of xorshift64, low 24 bits, by hand: 0xE220A8397B1DCDAF is the first
    # output of SplitMix64 from 0 (Steele, Lea and Flood 2014)
    state = 0xE220A8397B1DCDAF
    drawn = []
    for _ in range(2):
        state ^= (state << 13) % 2**64
        state ^= state >> 7
        state ^= (state << 17) % 2**64
        drawn.append((state & 0xFFFFFF) / 0xFFFFFF)
    radius = np.sqrt(-2 * np.log(drawn[0]))
    expected = radius * np.cos(2 * np.pi * drawn[1]), radius * np.sin(2 * np.pi * drawn[1])
    assert np.allclose(normal_noise(2, 0), expected, rtol=1e-4)


WITHOUT_MASK = tuple(rule for rule in SIGNATURES[TRUNK][0] if rule.name != "mask")
# what every client's folder, program and audio may have wrong is tested with others
BROKEN = {
    "no prosody": (lambda f: shutil.rmtree(f / PITCH), "program missing"),
    "no weights of the source": (lambda f: (f / client.SOURCE).unlink(), "file missing"),
    "another size": (lambda f: (f / DURATIONS).rename(f / client.durations_path(64)), "input shape"),
    "no mask": (lambda f: _write(f, TRUNK, Maskless(), WITHOUT_MASK), "mask missing"),
    "a mask unread": (lambda f: _write(f, GENERATOR, Unmasked()), "padding leaks"),
}
QUICK = ("no prosody", "no weights of the source")


@pytest.mark.parametrize("name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in BROKEN])
def test_what_is_wrong_is_named(folder, name):
    change, rule = BROKEN[name]
    change(folder)
    assert rule in [one.rule for one in check_delivery(folder, CLIENT).deviations]


def test_what_the_client_leaves_no_choice_of_is_refused_and_nothing_is_written(voiced, tmp_path, capsys):
    refused("makes the source's noise itself", deliver_to, voiced, CLIENT, tmp_path / "folder", noise=NoiseChoice())
    refused("no size for 100 tokens", Room, 100)
    refused("no size of 4 s", Room, 32, (3, 4))
    refused("has programs of one size", deliver_to, voiced, "kokoro-onnx", tmp_path / "folder", room=Room())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", encoding="utf-8")
    for arguments in ([str(tmp_path / "full")], [str(tmp_path / "folder"), "--seconds", "4"]):
        assert main(["deliver", *arguments, "--for", CLIENT, "--weights", "narrow"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.slow  # four stages of the narrow model are converted
def test_a_delivery_says_what_pytorch_says(voiced, tmp_path):
    deliver_to(voiced, CLIENT, tmp_path / "folder", ("alto", "bass"), room=Room(32, (3, 7)))
    assert read_delivery(tmp_path / "folder").noise == {"origin": "client", "seed": 42}
    requests = [Request(SYMBOLS, "bass", 1, 1.0), Request("h", "alto", 0, 1.5)]
    says_what_pytorch_says(voiced, CLIENT, tmp_path / "folder", requests, 100)
    # a text sounds the same from a larger size, but for the noise, which is another there
    small, large = (StageProgram(tmp_path / "folder" / client.frame_stages(size)[0]) for size in (3, 7))
    en, s = np.zeros((1, 640, 120), np.float32), np.full((1, 128), 0.1, np.float32)
    en[..., :50] = np.random.default_rng(0).standard_normal((1, 640, 50))
    wide = np.pad(en, ((0, 0), (0, 0), (0, 160)))
    first, second = small({"en": en, "s": s}), large({"en": wide, "s": s})
    assert np.allclose(first["F0_pred"][:, :100], second["F0_pred"][:, :100], rtol=1e-4, atol=1e-3)
    assert not second["F0_pred"][:, 100:].any()
