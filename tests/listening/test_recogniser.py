"""Where the recogniser's weights come from, and files that are none."""

import hashlib
import math
import time
from contextlib import nullcontext

import pytest
import torch
import whisper

from kokoro_nb.errors import InputError
from kokoro_nb.listening import recogniser
from kokoro_nb.listening.recogniser import BUNDLED, load_whisper, whisper_available
from tests.robustness.test_hostile import Payload


@pytest.fixture
def content():
    """Return what the checkpoint of the bundled ear holds."""
    return torch.load(BUNDLED["mini"], weights_only=True)


def refused(content, path, sentence):
    torch.save(content, path)
    with pytest.raises(InputError, match=sentence):
        load_whisper(path)


def test_a_model_that_cannot_be_had_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(recogniser, "_unreachable", lambda url: "no network")
    assert whisper_available("base.en") == (
        f"Whisper's model 'base.en' is not in {tmp_path / 'whisper'} and cannot be downloaded (no network); "
        "copy base.en.pt there, or give the path of a checkpoint."
    )
    with pytest.raises(InputError, match="neither a file or folder nor one of whisper's models"):
        load_whisper("gigantic.en")
    monkeypatch.setitem(recogniser.BUNDLED, "mini", tmp_path / "whisper_mini.pt")
    with pytest.raises(InputError, match="is not in data/"):
        load_whisper("mini")


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
    refused(content, tmp_path / "bad.pt", sentence)


def test_another_kind_of_file_is_refused(content, tmp_path):
    path, state = tmp_path / "bad.pt", content["model_state_dict"]
    refused({"dims": {}}, path, "is no whisper checkpoint")
    refused({**content, "model_state_dict": Payload(tmp_path / "ran")}, path, "cannot be read as a file of tensors")
    assert not (tmp_path / "ran").exists(), "code in a checkpoint does not run"
    state["decoder.ln.bias"][3] = math.nan
    refused(content, path, "not finite")
    del state["decoder.ln.bias"]
    refused(content, path, "do not make up the model")
