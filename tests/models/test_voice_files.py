"""Voices in the files that people have: kokoro-onnx's archive of all, kokoro.js' raw numbers."""

import numpy as np
import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.voices import SHAPE, load_voice, read_voice

TABLES = {
    name: np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
    for seed, name in enumerate(("af_heart", "am_adam"))
}


@pytest.fixture
def voices(tmp_path):
    path = tmp_path / "voices-v1.0.bin"
    with path.open("wb") as stream:
        np.savez(stream, **TABLES)
    return path


def test_one_voice_of_an_archive(narrow, voices):
    np.testing.assert_array_equal(read_voice(voices, "am_adam").numpy(), TABLES["am_adam"])
    np.testing.assert_array_equal(load_voice(narrow, f"{voices}:af_heart").numpy(), TABLES["af_heart"])


@pytest.mark.parametrize("blend", ["{0}:af_heart:0.25,{0}:am_adam:0.75", "{0}:af_heart+{0}:am_adam:3"])
def test_voices_of_an_archive_blend(narrow, voices, blend):
    expected = 0.25 * TABLES["af_heart"] + 0.75 * TABLES["am_adam"]
    np.testing.assert_allclose(load_voice(narrow, blend.format(voices)).numpy(), expected, atol=1e-6)


def test_an_archive_of_one_voice_needs_no_name(narrow, tmp_path):
    np.savez(tmp_path / "one.npz", af_heart=TABLES["af_heart"])
    np.testing.assert_array_equal(load_voice(narrow, str(tmp_path / "one.npz")).numpy(), TABLES["af_heart"])


def test_raw_numbers(narrow, tmp_path):
    path = tmp_path / "am_adam.bin"
    TABLES["am_adam"].astype("<f4").tofile(path)
    np.testing.assert_array_equal(load_voice(narrow, str(path)).numpy(), TABLES["am_adam"])
    assert load_voice(narrow, str(path)).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "has 2 voices; write voices-v1.0.bin:af_heart, for one, or af_heart, am_adam"),
        ("af_hart", "has no voice 'af_hart'; write voices-v1.0.bin:af_heart, for one"),
    ],
)
def test_a_voice_that_an_archive_does_not_have_is_refused_with_the_nearest(voices, name, sentence):
    with pytest.raises(InputError, match=sentence):
        read_voice(voices, name)


def test_a_file_that_was_cut_off_is_refused(voices, tmp_path):
    whole = voices.read_bytes()
    voices.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not the 522240 of one voice in float32"):
        read_voice(voices, "af_heart")
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="no whole archive of voices"):
        read_voice(tmp_path / "cut.npz", "af_heart")
    with pytest.raises(InputError, match="There is no file"):
        read_voice(tmp_path / "absent.bin")


def test_a_table_of_another_shape_and_a_pickle_are_refused(tmp_path):
    np.savez(tmp_path / "flat.npz", af_heart=TABLES["af_heart"][:, 0])
    with pytest.raises(InputError, match=r"not torch\.float32 \(510, 256\)"):
        read_voice(tmp_path / "flat.npz")
    np.savez(tmp_path / "objects.npz", af_heart=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="no whole archive of voices"):
        read_voice(tmp_path / "objects.npz")
