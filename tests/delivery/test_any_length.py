"""Programs that take any length, against the unpatched model on the same noise; a small one by itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.__main__ import main
from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery import any_length
from kokoro_nb.delivery.any_length import lowered_program, open_program
from kokoro_nb.delivery.contract import read_contract
from kokoro_nb.delivery.export import Delivery, deliver
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.models.case import capture
from kokoro_nb.models.padding import part_of
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.stages import DecoderStage, FromHarStage, ProsodyStage
from kokoro_nb.traces.statistics import compare
from tests.refusals import refused

TEXTS = ("Hi.", "Hello world.", "Hello world, this is a test of the exports, and of any length.")


WHOLE = Delivery("onnxruntime", any_length=True)
XNNPACK = Delivery("executorch-xnnpack", "onnxruntime", True, any_length=True, seconds=(2.0, 4.0), fast=True)
PROGRAMS = [WHOLE, replace(WHOLE, at_har=True), pytest.param(XNNPACK, marks=pytest.mark.slow)]  # lowered for a minute


@pytest.fixture(scope="module", params=PROGRAMS, ids=["whole decoder", "from har", "XNNPACK"])
def speaker(request, shallow, tmp_path_factory):
    place = tmp_path_factory.mktemp("delivered") / "any"
    deliver(shallow, request.param, place)
    return TwoStages(place)


def test_one_program_of_open_length_for_each_part(speaker):
    at_har = "source" in speaker.contract.parts
    assert list(speaker.contract.parts) == ["duration", "prosody", *(["source"] if at_har else []), "decoder"]
    assert speaker.contract.buckets == {}
    specs = {spec.name: spec for part in speaker.contract.parts.values() for spec in (*part.inputs, *part.outputs)}
    assert str(specs["ids"]) == "ids: int64[1, any]"
    assert str(specs["f0"]) == "f0: float32[1, any]"
    assert [name for name, spec in specs.items() if not spec.open] == ["ref_s", "speed", "s"]
    assert read_contract(speaker.folder) == speaker.contract


@pytest.mark.parametrize("text", TEXTS)
def test_the_audio_of_any_text_is_the_models(speaker, shallow, text):
    case = capture(shallow, text, g2p="espeak")
    features = speaker.predict(case.phonemes, speaker.table())
    assert np.array_equal(features["durations"], case.tensors["durations"].numpy())
    given = speaker.decoder_inputs(features, lambda frames: case.tensors["harmonic_noise"].numpy())
    own = {name: torch.from_numpy(given[name]) for name in ("asr", "f0", "n", "s", "har") if name in given}
    own = part_of(own, 0, case.frames)  # without the room behind the text
    asr, f0, n, s = (own[name] for name in ("asr", "f0", "n", "s"))
    noise, decoder = case.tensors["harmonic_noise"], shallow.model.decoder
    with torch.no_grad(), patched(shallow.model, EXPORT_PATCHES):
        pitch, energy = ProsodyStage(shallow.model)(torch.from_numpy(given["en"]), torch.from_numpy(given["ref_s"]))
        expected = DecoderStage(decoder)(asr, f0, n, s, noise).reshape(-1)
    assert compare(case.tensors["asr"], asr).of_peak <= 1e-5
    assert compare(pitch, f0).of_peak <= 1e-4
    assert compare(energy, n).of_peak <= 1e-4
    audio = speaker.sound(given)[: 600 * case.frames]
    assert audio.shape == (600 * case.frames,)
    # of bins with nothing in them the source takes the phase of what rounding left there: so likeness, 0.90 to 0.99
    assert np.corrcoef(audio, expected)[0, 1] > 0.85
    other = speaker.decode(features, speaker.noise(1))
    assert np.corrcoef(other, expected)[0, 1] < 0.5, "it is the noise of the case that makes them alike"
    if "source" in speaker.contract.parts:  # where both begin with the same numbers
        with torch.no_grad(), patched(shallow.model, EXPORT_PATCHES):
            expected = FromHarStage(decoder)(asr, f0, n, s, own["har"]).reshape(-1)
        assert compare(expected, audio).of_peak <= 1e-4


def test_what_is_left_closed_takes_no_other_length(shallow, tmp_path, monkeypatch):
    axes = {name: each for name, each in any_length.AXES.items() if name != "asr"}
    monkeypatch.setattr(any_length, "AXES", axes)
    deliver(shallow, Delivery("onnxruntime", any_length=True), tmp_path / "made")
    with pytest.raises(InputError, match=r"Input 'asr' has shape .* but the program was exported for"):
        TwoStages(tmp_path / "made").speak("Hello world.")


class QuickDecoder(torch.nn.Module):
    """What `FromHarStage` is given and gives, in one convolution."""

    output_names = ("output",)

    def __init__(self, decoder):
        super().__init__()
        self.convolution = torch.nn.Conv1d(decoder.asr_res[0].in_channels, 600, 1)

    def forward(self, asr, f0, n, s, har):
        return self.convolution(asr).transpose(1, 2).reshape(1, -1)


def test_what_is_longer_than_the_decoder_takes_is_cut(shallow, tmp_path, monkeypatch):
    monkeypatch.setattr("kokoro_nb.delivery.any_length.FromHarStage", QuickDecoder)
    deliver(shallow, XNNPACK, tmp_path / "made")
    speaker = TwoStages(tmp_path / "made")
    assert (speaker.contract.parts["decoder"].backend, speaker.largest) == ("executorch-xnnpack", 160)
    (piece,) = speaker.pieces(TEXTS[0])
    assert piece.audio.shape == (600 * int(piece.durations.sum()),)
    pieces = speaker.pieces(" ".join(TEXTS * 2))
    assert len(pieces) > 1
    assert all(len(piece.audio) <= 600 * 160 for piece in pieces)
    refused("161 frames have no room where 160 have; cut the text", speaker.bucket, 161)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"backend": "executorch-portable"}, "A decoder for executorch-portable takes one length alone; give its buck"),
        ({"backend": "onnxruntime", "host": "tvm"}, "Before the decoder tvm takes one length alone; host it on onnx"),
    ],
)
def test_other_runtimes_are_refused(shallow, tmp_path, settings, sentence):
    refused(sentence, deliver, shallow, Delivery(**settings, any_length=True), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("options", "buckets"),
    [
        (("--seconds", "1"), {"1s": 40}),
        (("--backend", "tvm"), {"3s": 120, "10s": 400, "45s": 1800}),
        (("--backend", "executorch-xnnpack", "--seconds", "1", "--any-length"), {}),
    ],
)
def test_the_command_takes_any_length_unless_sizes_are_given(tmp_path, monkeypatch, capsys, options, buckets):
    chosen = []

    def noted(kokoro, request, folder):
        chosen.append(request)
        raise InputError("that was enough")

    monkeypatch.setattr("kokoro_nb.delivery.export.deliver", noted)
    assert main(["deliver", str(tmp_path / "made"), "--weights", "narrow", *options]) == 2
    assert [request.buckets for request in chosen] == [buckets]
    options = ["--weights", "narrow", "--any-length", "--tokens", "12"]
    assert main(["deliver", str(tmp_path / "made"), *options]) == 2
    assert "With --any-length a text has as many tokens as the model takes" in capsys.readouterr().err


pytest.importorskip("executorch.runtime")
MOST = 12


@pytest.fixture(scope="module")
def program():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.LeakyReLU(), nn.Conv1d(3, 2, 5, padding=2)).eval()
    sizes = [{2: torch.export.Dim("frames", min=2, max=MOST)}]
    with quietly():
        return module, open_program(module, [torch.zeros(1, 2, MOST)], sizes)


def test_every_size_is_computed_as_in_pytorch(program, tmp_path):
    from executorch.runtime import Runtime

    path = tmp_path / "model.pte"
    with quietly():
        path.write_bytes(lowered_program(program[1], {"most": MOST}))
        loaded = Runtime.get().load_program(str(path))
        method = loaded.load_method("forward")
        for frames in (2, 7, MOST):
            x = torch.randn(1, 2, frames, generator=torch.Generator().manual_seed(frames))
            with torch.no_grad():
                expected = program[0](x)
            (found,) = method.execute([x])
            assert found.shape == expected.shape
            assert torch.allclose(found, expected, rtol=0, atol=1e-5)
        assert loaded.load_method("most").execute([]) == [MOST]
        with pytest.raises(RuntimeError):
            method.execute([torch.zeros(1, 2, MOST + 1)])


def test_a_program_of_one_size_is_refused_where_more_is_promised(program, monkeypatch):
    monkeypatch.setattr("executorch.exir.sym_util.eval_upper_bound", lambda size: 1)
    with quietly(), pytest.raises(InputError, match=r"Lowering narrowed an input of \[1, 2, 12\] to \[1, 1, 1\]"):
        lowered_program(program[1])
