"""Each delivery spoken by its client: durations as PyTorch's, audio from the same har, and what was fed as asked."""

import numpy as np
import pytest
import torch

from kokoro_nb.delivery.clients import client_programs
from kokoro_nb.delivery.clients.acceptance import TappedAudio, accept, judged, read_tapped, through_float16
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.client_programs import ClientEnded, Request, absence, speak_in
from kokoro_nb.delivery.clients.hosts import imitate
from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.seven_stages import AlbertStage, PostAlbertStage
from kokoro_nb.models.speaking import TextToAudio
from kokoro_nb.models.voices import load_voice

CLIENTS = ("kokoro-onnx", "sherpa-onnx", "kokoro.js")
SYMBOLS = "hˈɛlO, wˈɜɹld."


def _require(client):
    reason = absence(client)
    if reason:
        pytest.skip(reason)


def _requests():
    return [Request(SYMBOLS, "bass", 1, 0.8), Request("hˈ", "alto", 0, 1.5)]


# float32: its own floor is 115 dB. float16: each weight is rounded by 2^-12, 72 dB, in some hundred layers.
@pytest.mark.parametrize(
    ("dtype", "least"), [("float32", 100.0), pytest.param("float16", 40.0, marks=pytest.mark.slow)]
)
def test_the_file_says_what_pytorch_says_from_the_same_har(deliveries, voiced, dtype, least):
    tables = [load_voice(voiced, request.voice) for request in _requests()]
    rows = accept(voiced, "kokoro-onnx", deliveries("kokoro-onnx", dtype), _requests(), tables, imitate)
    assert [row.ids for row in rows] == [len(SYMBOLS), 2]
    assert all(row.durations == "equal" and row.from_har > least for row in rows)


@pytest.fixture(scope="module")
def said(deliveries, voiced):
    """Return what the tapped file said to the short request, once it was accepted."""
    heard = []

    def recorded(*given):
        heard.extend(imitate(*given))
        return heard

    row = _judged(deliveries, voiced, recorded)
    assert row.durations == "equal"
    assert row.from_har > 100
    return heard[0]


def _judged(deliveries, voiced, speak, shift=0):
    table = load_voice(voiced, "alto").roll(shift, 0)
    (row,) = accept(voiced, "kokoro-onnx", deliveries("kokoro-onnx"), _requests()[1:], [table], speak)
    return row


def test_a_client_that_changes_or_cuts_the_audio_or_takes_the_wrong_row_is_not_accepted(deliveries, voiced, said):
    assert _judged(deliveries, voiced, lambda *_: [said]).from_har > 100
    quiet = np.r_[said[:-600], 0.75 * said[-600:]]
    assert _judged(deliveries, voiced, lambda *_: [quiet]).from_har < 100
    row = _judged(deliveries, voiced, lambda *_: [said], shift=1)
    assert not (row.durations != "other" and row.from_har > 100)
    for spoilt in (said[:-1], np.r_[said[:1] + 1, said[1:]]):  # cut, and a token more
        with pytest.raises(InputError, match="not what a tapped file says"):
            _judged(deliveries, voiced, lambda *_, audio=spoilt: [audio])
    with pytest.raises(InputError, match="not what a tapped file says"):
        read_tapped(np.full(1200, 0.1, np.float32))


def _unrounded(voiced, speed):
    """Return ids, the voice's row and PyTorch's own durations at a speed."""
    ids, row = [0, *(voiced.model.vocab[symbol] for symbol in SYMBOLS), 0], load_voice(voiced, "bass")[len(SYMBOLS) - 1]
    with torch.no_grad():
        lasting, _, _ = TextToAudio(voiced.model).eval().text_features(torch.tensor([ids]), row, torch.tensor([speed]))
    return ids, row, lasting[0].numpy()


def test_other_durations_are_accepted_only_where_float16_gives_them(voiced):
    ids, row, own = _unrounded(voiced, 1.0)
    other = own + np.eye(len(own), dtype=own.dtype)[3]
    frames = int(other.sum())
    said = TappedAudio(other, np.zeros((1, 22, 120 * frames + 1), np.float32), np.zeros(600 * frames, np.float32))
    assert judged(voiced, ids, row, 1.0, said, other) == ("equal after float16", 0.0)
    for rounded in (None, own, other + 1):
        durations, from_har = judged(voiced, ids, row, 1.0, said, rounded)
        assert durations == "other"
        assert np.isnan(from_har)


def test_float16_moves_durations_near_a_half_alone(voiced):
    ids, _, _ = _unrounded(voiced, 1.0)
    tokens, row = torch.tensor([ids]), load_voice(voiced, "bass")[len(SYMBOLS) - 1]
    every = torch.ones_like(tokens)
    with torch.no_grad():
        bert_dur = AlbertStage(voiced.model).eval()(tokens, every)
        raw, _, _ = PostAlbertStage(voiced.model).eval()(bert_dur, tokens, row[:, STYLE:], torch.ones(1), every)
    longest = float(raw.max())
    half = longest / (np.floor(longest) - 0.5)  # the speed at which it lasts a half more than a whole number
    near = [_moved(voiced, half * (1 + off)) for off in np.linspace(-1e-3, 1e-3, 21)]
    assert 0 < np.mean(near) < 1
    assert not _moved(voiced, longest / np.floor(longest))


def _moved(voiced, speed):
    """Return whether the longest token lasts another time after float16."""
    ids, row, own = _unrounded(voiced, speed)
    rounded = through_float16(voiced, ids, row, speed)
    assert np.abs(rounded - own).max() <= 1
    return rounded[own.argmax()] != own.max()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("speak", [imitate, speak_in])
def test_the_client_and_its_imitation_feed_what_the_contract_says(tmp_path, client, speak):
    if speak is speak_in:
        _require(client)
    write_probe(client, tmp_path / "probe")
    vocab = vocabulary(tmp_path / "probe")
    requests = [Request(SYMBOLS, "probe_1", 1, 0.8), Request("hˈ", "probe_0", 0, 1.5)]
    for request, audio in zip(requests, speak(client, tmp_path / "probe", requests), strict=True):
        read, ids = read_probe(audio), (0, *(vocab[symbol] for symbol in request.symbols), 0)
        assert compare_reading(read, client, ids, request.speed).deviations == ()
        assert read.voice == request.number
        assert (read.lead, read.middle, read.tail) == (0.5, 0.5, 0.5)


def test_a_client_that_is_not_there_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv(client_programs.ENVIRONMENT, str(tmp_path / "none"))
    assert "is not installed; install it apart" in absence("kokoro-onnx")
    with pytest.raises(InputError, match="is not installed"):
        speak_in("kokoro-onnx", tmp_path, [])


def test_a_client_that_ends_says_what_it_said(tmp_path):
    _require("sherpa-onnx")
    with pytest.raises(ClientEnded, match="sherpa-onnx ended with status"):
        speak_in("sherpa-onnx", tmp_path, [Request("h", "")])
