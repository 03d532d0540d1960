"""Files from outside: refused in one sentence, never executed, never let out of their folder, not taken at their word.

And the artefacts of the cache: what is damaged there is made again.
"""

import json
import pickle
import struct
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kokoro_nb.delivery.contract import read_contract
from kokoro_nb.delivery.pipeline import read_table
from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import read_wav, write_wav
from kokoro_nb.models.voices import SHAPE, load_voice
from kokoro_nb.models.weights import read_config, read_state
from tests.delivery.test_contract import delivery

CONFIG = json.loads((Path(read_state.__code__.co_filename).parent / "kokoro_82m.json").read_text())


def voice(path):
    return load_voice(SimpleNamespace(default_voice=""), str(path))


class Payload:
    """What leaves a file behind when it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return (open, (self.marker, "w"))


def pickled(path):
    torch.save({"bert": {"x": Payload(path.with_name("executed"))}}, path)


def object_array(path):
    np.save(path, np.array([Payload(path.with_name("executed"))], dtype=object), allow_pickle=True)


def escape(path):
    torch.save({"bert": {"x": torch.zeros(2)}}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../executed", "out")


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50_000_000))


def long_header(path):
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")


def large_table(path):
    with path.open("wb") as stream:
        about = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 256)}
        np.lib.format.write_array_header_1_0(stream, about)


def large_flac(path):
    import soundfile

    soundfile.write(path, np.zeros(4096), 24_000, format="FLAC")
    raw = bytearray(path.read_bytes())
    raw[21:26] = bytes([raw[21] | 0x0F, 0xFF, 0xFF, 0xFF, 0xFF])  # the 36 bits of its length, RFC 9639, 8.2
    path.write_bytes(raw)


def outside(path):
    delivery(path)
    about = json.loads((path / "contract.json").read_text())
    about["parts"]["decoder_3s"]["file"] = "../x"
    (path / "contract.json").write_text(json.dumps(about))
    (path.parent / "x").write_text("secret")


def linked(path):
    delivery(path)
    (path.parent / "x").write_text("secret")
    (path / "voice_0.npy").unlink()
    (path / "voice_0.npy").symlink_to(path.parent / "x")


def whole_voice(path):
    torch.save(torch.zeros(SHAPE), path)


def state(path):
    torch.save({"bert": {"x": torch.zeros(2)}}, path)


def tensors(path):
    save_file({"bert.x": torch.zeros(2)}, path)


def config(path, **values):
    path.write_text(json.dumps({**CONFIG, **values}))


def vast(path):
    config(path, hidden_dim=10**9)


def short_sound(path):
    write_wav(path, np.zeros(9), 24_000)


def table(path):
    np.save(path, np.zeros((510, 256), np.float32))


OUT = "outside of its folder"
NO_TENSORS, NOT_WHOLE = "not a whole file of tensors", "no whole safetensors"
# a file that is not what it should be: its name, what makes it, what reads it, words of the refusal, a sound one
HOSTILE = {
    "weights that execute code": ("w.pth", pickled, read_state, NO_TENSORS, state),
    "weights with a path out of them": ("w.pth", escape, read_state, "a path that leads out of it", state),
    "weights that unpack to 50 MB": ("w.pth", bomb, read_state, "claims to hold more than it has bytes", state),
    "weights with a header of 2^62 bytes": ("w.safetensors", long_header, read_state, NOT_WHOLE, tensors),
    "architecture of any size": ("config.json", vast, read_config, "sizes that no Kokoro has", config),
    "voice that executes code": ("v.pt", pickled, voice, "not a whole file", whole_voice),
    "delivered voice that executes code": ("v.npy", object_array, read_table, "is no voice of", table),
    "delivered voice of 1 PB": ("v.npy", large_table, read_table, "is no voice of", table),
    "delivery that names a file above it": ("delivered", outside, read_contract, OUT, delivery),
    "delivery with a link out of it": ("delivered", linked, read_contract, OUT, delivery),
    "sound of 32 days": ("s.flac", large_flac, read_wav, "claims to have", short_sound),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path, name):
    file, make, read, words, sound_one = HOSTILE[name]
    path = tmp_path / "in" / file
    path.parent.mkdir()
    make(path)
    with pytest.raises(InputError, match=words) as caught:
        read(path)
    assert not list(tmp_path.rglob("executed")), "nothing in it was executed or unpacked"
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    sound = tmp_path / "sound" / file
    sound.parent.mkdir()
    sound_one(sound)
    read(sound)


def test_the_payload_is_alive(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()
