import hashlib
import math
import time
from contextlib import nullcontext

import pytest
import torch
import whisper

from kokoro_nb.errors import InputError
from kokoro_nb.listening import recogniser
from kokoro_nb.listening.recogniser import load_whisper, whisper_available
from tests.listening.conftest import whisper_checkpoint
from tests.robustness.test_hostile import Payload


def save(content, path):
    torch.save(content, path)
    return path


def test_a_model_that_cannot_be_had_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(recogniser, "_unreachable", lambda url: "no network")
    reason = whisper_available("base.en")
    assert reason == (
        f"Whisper's model 'base.en' is not in {tmp_path / 'whisper'} and cannot be downloaded (no network); "
        "copy base.en.pt there, or give the path of a checkpoint."
    )
    with pytest.raises(InputError, match="cannot be downloaded"):
        load_whisper("base.en")
    monkeypatch.setattr(recogniser, "_unreachable", lambda url: None)
    assert whisper_available("base.en") is None


def test_the_bundled_ear_has_a_name(tmp_path, monkeypatch):
    monkeypatch.setitem(recogniser.BUNDLED, "mini", tmp_path / "whisper_mini.pt")
    assert "whisper_mini.pt is not in data/" in whisper_available("mini")
    with pytest.raises(InputError, match="is not in data/"):
        load_whisper("mini")
    save(whisper_checkpoint(), tmp_path / "whisper_mini.pt")
    assert whisper_available("mini") is None
    assert load_whisper("mini").dims.n_audio_state == 16


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


def test_an_unknown_name_is_refused():
    assert "neither a file or folder nor one of whisper's models" in whisper_available("gigantic.en")
    with pytest.raises(InputError, match="neither a file or folder"):
        load_whisper("gigantic.en")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_mels": -1}, "must be positive whole numbers"),
        ({"extra": 1}, "must be positive whole numbers"),
        ({"n_audio_ctx": 500}, "n_audio_ctx is 500 .* whisper needs 1500"),
        ({"n_vocab": 100}, "n_vocab is 100"),
        ({"n_text_ctx": 10**9}, "do not make up the model"),
    ],
)
def test_bad_dimensions_are_refused(changes, message, tmp_path):
    content = whisper_checkpoint()
    content["dims"] |= changes
    with pytest.raises(InputError, match=message):
        load_whisper(save(content, tmp_path / "bad.pt"))


def test_another_kind_of_file_is_refused(tmp_path):
    for content in ([1, 2], {"dims": {}}, {"model_state_dict": {}}):
        with pytest.raises(InputError, match="is no whisper checkpoint"):
            load_whisper(save(content, tmp_path / "bad.pt"))
    content = whisper_checkpoint()
    content["model_state_dict"]["decoder.ln.bias"][3] = math.nan
    with pytest.raises(InputError, match="not finite"):
        load_whisper(save(content, tmp_path / "bad.pt"))
    del content["model_state_dict"]["decoder.ln.bias"]
    with pytest.raises(InputError, match="do not make up the model"):
        load_whisper(save(content, tmp_path / "bad.pt"))
    (tmp_path / "bad.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="cannot be read as a file of tensors"):
        load_whisper(tmp_path / "bad.pt")


def test_code_in_a_checkpoint_does_not_run(tmp_path):
    torch.save({**whisper_checkpoint(), "model_state_dict": Payload(tmp_path / "ran")}, tmp_path / "bad.pt")
    with pytest.raises(InputError, match="cannot be read as a file of tensors"):
        load_whisper(tmp_path / "bad.pt")
    assert not (tmp_path / "ran").exists()
