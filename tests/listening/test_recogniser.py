"""Where the recogniser's weights come from, in openai-whisper's form and in transformers', and files that are none."""

import hashlib
import json
import math
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import whisper
from safetensors.torch import save_file
from transformers import WhisperConfig, WhisperForConditionalGeneration

from kokoro_nb.listening import recogniser
from kokoro_nb.listening.recogniser import BUNDLED, load_whisper, read_folder, whisper_available
from tests.refusals import refused
from tests.robustness.test_hostile import Payload


@pytest.fixture
def content():
    """Return what the checkpoint of the bundled ear holds."""
    return torch.load(BUNDLED["mini"], weights_only=True)


def unread(content, path, sentence):
    torch.save(content, path)
    refused(sentence, load_whisper, path)


def test_a_model_that_cannot_be_had_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(recogniser, "_unreachable", lambda url: "no network")
    assert whisper_available("base.en") == (
        f"Whisper's model 'base.en' is not in {tmp_path / 'whisper'} and cannot be downloaded (no network); "
        "copy base.en.pt there, or give the path of a checkpoint."
    )
    refused("neither a file or folder nor one of whisper's models", load_whisper, "gigantic.en")
    monkeypatch.setitem(recogniser.BUNDLED, "mini", tmp_path / "whisper_mini.pt")
    refused("is not in data/", load_whisper, "mini")


def test_a_cached_model_is_taken_only_if_it_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(recogniser, "_unreachable", lambda url: "no network")
    (tmp_path / "whisper").mkdir()
    cached = tmp_path / "whisper" / "base.en.pt"
    cached.write_bytes(b"half of a download")
    assert "is damaged in" in whisper_available("base.en")
    whole = hashlib.sha256(b"whole").hexdigest()
    monkeypatch.setitem(whisper._MODELS, "base.en", f"https://example.invalid/{whole}/base.en.pt")
    cached.write_bytes(b"whole")
    assert whisper_available("base.en") is None


def test_the_network_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(recogniser, "NETWORK_SECONDS", 0.05)
    monkeypatch.setattr(recogniser.urllib.request, "urlopen", lambda *args, **options: nullcontext(time.sleep(1)))
    assert recogniser._unreachable("https://example.invalid/model.pt") == "no answer in time"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_mels": -1}, "must be positive whole numbers"),
        ({"n_audio_ctx": 500}, "n_audio_ctx is 500 .* whisper needs 1500"),
        ({"n_text_ctx": 10**9}, "do not make up the model"),
    ],
)
def test_bad_dimensions_are_refused(content, changes, sentence, tmp_path):
    content["dims"] |= changes
    unread(content, tmp_path / "bad.pt", sentence)


def test_another_kind_of_file_is_refused(content, tmp_path):
    path, state = tmp_path / "bad.pt", content["model_state_dict"]
    unread({"dims": {}}, path, "is no whisper checkpoint")
    unread({**content, "model_state_dict": Payload(tmp_path / "ran")}, path, "cannot be read as a file of tensors")
    assert not (tmp_path / "ran").exists(), "code in a checkpoint does not run"
    state["decoder.ln.bias"][3] = math.nan
    unread(content, path, "not finite")
    del state["decoder.ln.bias"]
    unread(content, path, "do not make up the model")


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "vocab_size": 51865, "num_mel_bins": 80}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 4}
    widths = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    return WhisperForConditionalGeneration(WhisperConfig(**sizes, **heads, **widths)).eval()


@pytest.fixture
def folder(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    return tmp_path


def _scores(model):
    mel, tokens = torch.randn(1, 80, 3000, generator=torch.Generator().manual_seed(1)), torch.tensor([[50258, 7, 9]])
    with torch.no_grad():
        return model(mel, tokens)


def _expected(theirs):
    return _scores(lambda mel, tokens: theirs(input_features=mel, decoder_input_ids=tokens).logits)


def test_it_computes_what_transformers_computes(folder, theirs):
    assert whisper_available(folder) is None
    model = load_whisper(folder)
    assert (model.dims.n_audio_layer, model.dims.n_text_layer, model.dims.n_text_head) == (2, 3, 4)
    torch.testing.assert_close(_scores(model), _expected(theirs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("save", "file"), [(save_file, "model.safetensors"), (torch.save, "pytorch_model.bin")])
def test_weights_in_several_files(theirs, tmp_path, save, file):
    state = {name: tensor for name, tensor in theirs.state_dict().items() if name != "proj_out.weight"}
    index = {}
    for part in (0, 1):
        path = tmp_path / f"{part}{Path(file).suffix}"
        tensors = {name: state[name].half().contiguous() for name in list(state)[part::2]}
        save(tensors, path)
        index |= dict.fromkeys(tensors, path.name)
    (tmp_path / f"{file}.index.json").write_text(json.dumps({"weight_map": index}))
    theirs.config.save_pretrained(tmp_path)
    torch.testing.assert_close(_scores(load_whisper(tmp_path)), _expected(theirs), rtol=0.05, atol=0.01)  # float16
    path.unlink()
    refused(rf"There is no file .*{path.name}, which the index names", load_whisper, tmp_path)


def test_folders_that_are_none(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"half")
    refused(r"model\.safetensors cannot be read as a file of tensors", read_folder, folder)
    (folder / "model.safetensors").unlink()
    assert "neither model.safetensors nor pytorch_model.bin" in whisper_available(folder)
    (folder / "pytorch_model.bin").write_bytes(b"")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "wav2vec2"}))
    refused("describes no Whisper model but 'wav2vec2'", load_whisper, folder)
    (folder / "config.json").unlink()
    refused(r"There is no config\.json in", load_whisper, folder)
