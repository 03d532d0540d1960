"""The probe as Core ML packages: what the client feeds is read from its audio, and a wrong row is named."""

from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients.client_contract import RowRule
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.hosts import host as host_of
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.kokoro_coreml_client import Room
from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
from kokoro_nb.listening.waveform import write_wav

SYMBOLS = "hˈɛlO, wˈɜɹld."


@pytest.mark.parametrize(
    ("client", "room"),
    [
        ("kokoro-coreml", Room(32, (3,))),
        pytest.param("fluidaudio", None, marks=pytest.mark.slow),  # seven conversions
    ],
)
def test_the_probe_says_what_the_client_feeds(tmp_path, capsys, client, room):
    write_probe(client, tmp_path / "probe", room=room)
    rules, known = contract(client), vocabulary(tmp_path / "probe")
    host = host_of(tmp_path / "probe", rules)
    for symbols, speed, number in ((SYMBOLS, 0.8, 1), ("hˈ", 1.5, 0)):
        ids = (0, *(known[symbol] for symbol in symbols), 0)
        audio = host.utter(Request(symbols, f"probe_{number}", number, speed)).audio
        read = read_probe(audio)
        assert (read.ids, read.row, read.voice, read.layout) == (ids, len(symbols) - 1, number, True)
        assert compare_reading(read, client, ids, speed).deviations == ()
        assert (read.lead, read.middle, read.tail) == (0.5, 0.5, 0.5)
    # as a user has it: a WAV file of 16 bits, and the command
    write_wav(tmp_path / "said.wav", np.round(audio * 32767) / 32768, 24_000)
    assert main(["probe", client, "--read", str(tmp_path / "said.wav"), "--ids", *map(str, ids), "--speed", "1.5"]) == 0
    assert "16 bit" in capsys.readouterr().out
    other = host_of(tmp_path / "probe", replace(rules, row=RowRule("n", lambda ids, symbols, rows: ids)))
    reading = read_probe(other.utter(Request("hˈ", "probe_0")).audio)
    assert any("the contract says 1" in one for one in compare_reading(reading, client).deviations)
