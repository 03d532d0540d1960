"""A delivered folder is used only as it was written."""

import numpy as np
import pytest

from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.delivery import export
from kokoro_nb.delivery.contract import Contract, Part, is_whole, read_contract, write_contract
from kokoro_nb.delivery.export import Delivery, delivered
from kokoro_nb.storage import read_json
from tests.refusals import refused

SPEC = TensorSpec("x", (1, 2), "float32")
PROGRAM, WEIGHTS, VOICE = "decoder_3s/kokoro_decoder_3s.onnx", "decoder_3s/weights.bin", "voice_0.npy"


@pytest.fixture
def folder(tmp_path):
    return delivery(tmp_path / "delivery")


def delivery(folder):
    """Write a delivery of one program, and return its folder."""
    (folder / "decoder_3s").mkdir(parents=True)
    (folder / PROGRAM).write_bytes(b"program")
    (folder / WEIGHTS).write_bytes(b"weights")
    np.save(folder / VOICE, np.zeros((510, 256), np.float32))
    part = Part("onnxruntime", PROGRAM, (SPEC,), (SPEC,))
    sizes = ("w", 8, {"3s": 120}, 24_000, 600, "espeak", {"a": 1}, {"v": VOICE})
    write_contract(folder, Contract(*sizes, {"decoder_3s": part}))
    return folder


def test_what_was_written_is_whole(folder):
    assert read_json(folder / "contract.json", "contract")["schema"] == 3, "folders of before are still read"
    path = folder / "contract.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"open"', '"none"'), encoding="utf-8")  # as before
    contract = read_contract(folder)
    assert set(contract.files) == {PROGRAM, WEIGHTS, VOICE}
    assert contract.artifact("decoder_3s", folder).path == folder / PROGRAM
    assert is_whole(folder)


@pytest.mark.parametrize("file", [PROGRAM, WEIGHTS])
def test_a_damaged_program_is_not_loaded(folder, file):
    contract = read_contract(folder)
    (folder / file).write_bytes((folder / file).read_bytes().upper())
    refused(f"{file} in .* is not as it was delivered", contract.artifact, "decoder_3s", folder)
    contract.require_whole(VOICE, folder)  # what is beside it is whole
    bare = Contract(**{**vars(contract), "files": {VOICE: contract.files[VOICE]}})
    refused("not as it was delivered", bare.artifact, "decoder_3s", folder)
    assert not is_whole(folder)


def test_a_damaged_delivery_in_the_cache_is_made_anew(narrow, tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    made = []
    monkeypatch.setattr(export, "deliver", lambda _kokoro, _asked, folder: made.append(delivery(folder)))
    first = delivered(narrow, Delivery("onnxruntime"))
    assert delivered(narrow, Delivery("onnxruntime")) == first
    assert len(made) == 1
    (first / VOICE).write_bytes(b"")
    assert is_whole(delivered(narrow, Delivery("onnxruntime")))
    assert len(made) == 2
