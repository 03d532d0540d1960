"""Both stages on ONNX Runtime against the unpatched model, on the same noise."""

import json
import shutil

import numpy as np
import pytest
import torch

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.contract import read_contract
from kokoro_nb.delivery.export import Delivery, deliver
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import read_wav
from kokoro_nb.models.patches import patched
from kokoro_nb.models.phonemes import phonemise
from kokoro_nb.models.stages import FromHarStage
from kokoro_nb.run_apart import run_apart
from kokoro_nb.traces.statistics import compare
from tests.refusals import refused

TEXT = "Hello world."


@pytest.fixture(scope="module")
def folder(shallow, tmp_path_factory):
    place = tmp_path_factory.mktemp("delivered") / "shallow"
    deliver(shallow, Delivery("onnxruntime", tokens=24, seconds=(3,)), place)
    return place


@pytest.fixture(scope="module")
def speaker(folder):
    return TwoStages(folder)


def test_the_contract_says_what_is_in_the_folder(folder, shallow):
    about = json.loads((folder / "contract.json").read_text())
    assert about["weights"] == shallow.weights.label
    assert (about["sample_rate"], about["samples_per_frame"], about["tokens"]) == (24_000, 600, 24)
    parts = read_contract(folder).parts
    assert list(parts) == ["duration", "prosody_3s", "decoder_3s"]
    assert (folder / "decoder_3s" / "kokoro_decoder_3s.onnx").is_file()
    assert [str(spec) for spec in parts["duration"].inputs[:2]] == ["ids: int64[1, 24]", "length: int64[1]"]
    assert [str(spec) for spec in parts["decoder_3s"].outputs] == ["output: float32[1, 72000]"]


def test_speech_repeats_itself_and_changes_with_seed_and_speed(speaker):
    first = speaker.speak(TEXT, seed=1)
    assert np.array_equal(first, speaker.speak(TEXT, seed=1))
    other = speaker.speak(TEXT, seed=2)
    assert first.shape == other.shape
    assert not np.array_equal(first, other)
    assert len(speaker.speak(TEXT, speed=2.0)) < len(first)


def test_torch_is_not_even_imported(folder):
    script = (
        "import sys; from kokoro_nb.delivery import golden; from kokoro_nb.delivery.pipeline import TwoStages; "
        f"golden.golden_vectors(); audio = TwoStages({str(folder)!r}).speak({TEXT!r}); "
        "print(len(audio), 'torch' in sys.modules)"
    )
    told = run_apart(["-c", script]).stdout.split()
    assert int(told[0]) > 0
    assert told[1] == "False"


def test_a_long_text_is_cut_each_piece_predicted_once_and_nothing_is_left_out(speaker, monkeypatch):
    asked, decoded, predict = [], [], TwoStages.predict
    monkeypatch.setattr(TwoStages, "predict", lambda self, *given: asked.append(given[0]) or predict(self, *given))
    monkeypatch.setattr(
        TwoStages,
        "decode",
        lambda self, made, noise: decoded.append(made) or np.ones(made["asr"].shape[-1] * 600, "f4"),
    )
    speaker.speak(TEXT)
    assert len(asked) == len(decoded) == 1
    decoded.clear()
    text = "Hello world. Hello world, hello again, my world. Hello!"
    audio = speaker.speak(text)
    assert len(decoded) > 1
    frames = [made["asr"].shape[-1] for made in decoded]
    assert max(frames) <= 120
    assert len(audio) == 600 * sum(frames)
    spoken = [made["durations"].size - 2 for made in decoded]
    assert sum(spoken) + len(spoken) - 1 == len(phonemise(text, "espeak")[0])  # one space for each cut


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"text": " "}, "The text is empty"),
        ({"text": "?!"}, "can be pronounced"),
        ({"text": TEXT, "speed": 0}, "speed must be a number above 0"),
        ({"text": TEXT, "voice": "nobody"}, "no voice 'nobody'; use one of seeded"),
    ],
)
def test_bad_input_is_one_sentence(speaker, asked, sentence):
    refused(sentence, speaker.speak, **asked)


def test_a_folder_of_somebody_elses_is_not_replaced_and_what_is_refused_writes_nothing(shallow, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="something else than a delivery and would be replaced; choose another folder"):
        deliver(shallow, Delivery("onnxruntime"), tmp_path)
    refused("no voice 'nobody'", deliver, shallow, Delivery("onnxruntime", voices=("nobody",)), tmp_path / "none")
    refused("writes no file", deliver, shallow, Delivery("eager", tokens=8, seconds=(0.1,)), tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_is_incomplete_is_refused(folder, tmp_path):
    refused("contract", read_contract, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.onnx"))
    refused(r"lacks duration/kokoro_duration\.onnx", TwoStages, copy)


def test_say_writes_a_wav_file(folder, shallow_weights, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("kokoro_nb.delivery.export.delivered_folder", lambda *given, **settings: folder)
    out = tmp_path / "said.wav"
    assert main(["say", TEXT, "--weights", str(shallow_weights), "-o", str(out)]) == 0
    samples, rate = read_wav(out)
    assert rate == 24_000
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() > 0
    assert f"{len(samples) / rate:.2f} s, shallow" in capsys.readouterr().out
    assert main(["say", "", "--weights", str(shallow_weights), "-o", str(tmp_path / "none.wav")]) == 2
    assert not (tmp_path / "none.wav").exists()


def _late(known):
    return known | {"har": np.roll(known["har"], 1, axis=2)}


def _from_har_error(speaker, kokoro, text):
    """Return the largest error of the delivered decoder on its own inputs against eager, of the peak."""
    given = speaker.decoder_inputs(speaker.predict(speaker.symbols(text), speaker.table("")), speaker.noise(0))
    part = speaker.contract.parts[f"decoder_{next(iter(speaker.contract.buckets))}"]
    inputs = {spec.name: torch.from_numpy(given[spec.name]) for spec in part.inputs}
    with torch.no_grad(), patched(kokoro.model):
        expected = FromHarStage(kokoro.model.decoder)(**inputs)
    return compare(expected.reshape(-1), speaker.sound(given)).of_peak


def test_from_har_the_decoder_is_the_models(shallow, shallow_case, tmp_path, monkeypatch):
    seconds = (shallow_case.frames + 2) / 40
    deliver(shallow, Delivery("onnxruntime", at_har=True, tokens=24, seconds=(seconds,)), tmp_path / "made")
    speaker = TwoStages(tmp_path / "made")
    assert f"source_{next(iter(speaker.contract.buckets))}" in speaker.contract.parts

    assert _from_har_error(speaker, shallow, shallow_case.text) <= 1e-4
    run = speaker.run
    monkeypatch.setattr(speaker, "run", lambda part, known: run(part, _late(known) if "decoder_" in part else known))
    assert _from_har_error(speaker, shallow, shallow_case.text) > 1e-2  # the control
