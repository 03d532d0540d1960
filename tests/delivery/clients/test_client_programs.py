"""What a client would cut, skip or end with is refused before it is started."""

import pytest

from kokoro_nb.delivery.clients import client_programs
from kokoro_nb.delivery.clients.client_programs import Request, require_speakable
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.errors import InputError


def test_what_a_client_cannot_speak_is_one_sentence():
    for request, said in (
        (Request("h" * 511, ""), "511 phonemes are more than the 510 of kokoro-onnx 0.6"),
        (Request("h", "", speed=3.0), "speaks at a speed of 0.5 to 2, not 3"),
    ):
        with pytest.raises(InputError, match=said):
            require_speakable(contract("kokoro-onnx"), request)
    assert require_speakable(contract("sherpa-onnx"), Request("h" * 510, "")) is None  # nothing is raised


def test_a_client_that_takes_text_alone_is_given_no_phonemes(tmp_path, monkeypatch):
    monkeypatch.setattr(client_programs, "absence", lambda client: None)
    assert client_programs.muteness("sherpa-onnx") is None
    with pytest.raises(InputError, match=r"sherpa-onnx 1\.13 takes text alone, and no phonemes"):
        client_programs.speak_in("sherpa-onnx==1.13", tmp_path, [Request("h", "")])
