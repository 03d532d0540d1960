from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kokoro_nb.errors import InputError
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.voices import SHAPE, SPREAD, load_voice, own_voices, read_voice, style


@pytest.fixture
def voice_file(tmp_path):
    """Return a function that writes a voice file and returns its path."""

    def write(content, suffix=".pt"):
        path = tmp_path / f"voice{suffix}"
        if suffix == ".pt":
            torch.save(content, path)
        else:
            save_file(content, path)
        return str(path)

    return write


@pytest.fixture
def table():
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(3))


def test_the_stand_in_is_one_style_for_every_length(narrow):
    voice = load_voice(narrow)
    assert voice.shape == SHAPE
    assert voice.dtype == torch.float32
    assert (voice == voice[:1]).all()
    assert 0.8 * SPREAD < voice[0].std() < 1.2 * SPREAD
    assert torch.equal(load_voice(narrow, "seeded"), load_voice(narrow, "seeded:0"))
    assert torch.equal(voice, load_voice(narrow, "seeded:0"))
    assert not torch.equal(voice, load_voice(narrow, "seeded:1"))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_file_is_read_as_it_is(narrow, voice_file, table, suffix):
    path = voice_file(table if suffix == ".pt" else {"voice": table}, suffix)
    assert torch.equal(load_voice(narrow, path), table)
    half = table.half()
    voice = load_voice(narrow, voice_file(half if suffix == ".pt" else {"voice": half}, suffix))
    assert voice.dtype == torch.float32
    assert torch.equal(voice, half.float())


@pytest.mark.parametrize(
    ("blend", "shares"),
    [
        ("seeded:1+seeded:2", (0.5, 0.5)),  # seeds, not shares
        ("seeded:1 + seeded:2:3", (0.25, 0.75)),  # 1 / (1 + 3), 3 / (1 + 3)
        ("seeded:1:1,seeded:2:0", (1.0, 0.0)),
    ],
)
def test_a_blend_is_the_weighted_mean(narrow, voice_file, table, blend, shares):
    none, first, second = (load_voice(narrow, f"seeded:{seed}") for seed in range(3))
    assert torch.allclose(load_voice(narrow, blend), shares[0] * first + shares[1] * second, atol=1e-7)
    # a share without a seed is of the first stand-in
    assert torch.allclose(load_voice(narrow, "seeded:0.5+seeded:2:0.5"), 0.5 * none + 0.5 * second, atol=1e-7)
    assert torch.allclose(load_voice(narrow, f"{voice_file(table)}:0.25+seeded:0.75"), 0.25 * table + 0.75 * none)


SHARES = r"must be positive numbers; write for example a:0\.6\+b:0\.4"
NO_NAME = r"is no name of a voice; use letters, digits and _, or the path of a \.pt file"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("seeded:1:nan+seeded:2:1", SHARES),
        ("seeded+am_adam:much", r"'am_adam:much' is no part of a blend; write it as name:share"),
        ("af_heart", "The weights 'narrow' have no voice 'af_heart'; use 'seeded' or 'seeded:1'"),
        ("../secret", NO_NAME),
        ("seeded+", NO_NAME),
        ("no/absent.pt", r"There is no file .*absent\.pt; check the path"),
    ],
)
def test_what_is_no_voice_is_refused(narrow, name, told):
    with pytest.raises(InputError, match=told):
        load_voice(narrow, name)


@pytest.mark.parametrize(
    ("content", "suffix", "found"),
    [
        (torch.zeros(510, 256), ".pt", r"not torch\.float32 \(510, 256\)"),
        (torch.zeros(SHAPE, dtype=torch.int64), ".pt", r"not torch\.int64 \(510, 1, 256\)"),
        ({"voice": torch.zeros(SHAPE)}, ".pt", "not dict"),
        ({"style": torch.zeros(SHAPE)}, ".safetensors", "not NoneType"),
    ],
)
def test_files_of_another_form_are_refused(narrow, voice_file, content, suffix, found):
    with pytest.raises(
        InputError, match=rf"one float tensor of shape \(510, 1, 256\), .*{found}; use one of the model's"
    ):
        load_voice(narrow, voice_file(content, suffix))


def test_values_that_are_not_finite_are_refused(narrow, voice_file, table):
    table[509, 0, 255] = float("-inf")
    with pytest.raises(InputError, match=r"voice\.pt holds NaN or infinity; it is damaged, copy it again"):
        load_voice(narrow, voice_file(table))


def test_style_is_the_row_for_the_number_of_phonemes(table):
    assert torch.equal(style(table, "a"), table[0])
    assert torch.equal(style(table, "a" * 510), table[509])
    assert style(table, "abc").shape == (1, 256)
    for length in (0, 511):
        with pytest.raises(InputError, match=f"A style is for 1 to 510 phonemes, not {length}; split or mend the text"):
            style(table, "a" * length)


def test_two_voices_and_their_blend_can_be_loaded_with_any_weights(narrow, published):
    local, bundled = load_model(published), load_model("mini")
    expected = {
        "made": (narrow, ["seeded:0", "seeded:1", "seeded:0:0.5+seeded:1:0.5"]),
        "a folder": (local, ["af_heart", "am_adam", "af_heart:0.5+am_adam:0.5"]),
        "bundled": (bundled, ["ef_espeak", "em_espeak", "ef_espeak:0.5+em_espeak:0.5"]),
        "a hub's": (replace(local, voices=()), ["af_heart", "seeded:1", "af_heart:0.5+seeded:1:0.5"]),
    }
    for kokoro, names in expected.values():
        assert own_voices(kokoro) == names
        first, second, both = (load_voice(kokoro, name) for name in names)
        torch.testing.assert_close(both, (first + second) / 2)


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


def test_voices_of_an_archive_and_raw_numbers(narrow, voices, tmp_path):
    np.testing.assert_array_equal(read_voice(voices, "am_adam").numpy(), TABLES["am_adam"])
    np.testing.assert_array_equal(load_voice(narrow, f"{voices}:af_heart").numpy(), TABLES["af_heart"])
    expected = 0.25 * TABLES["af_heart"] + 0.75 * TABLES["am_adam"]
    blend = load_voice(narrow, f"{voices}:af_heart+{voices}:am_adam:3")
    np.testing.assert_allclose(blend.numpy(), expected, atol=1e-6)
    np.savez(tmp_path / "one.npz", af_heart=TABLES["af_heart"])  # of one there is no choice
    np.testing.assert_array_equal(load_voice(narrow, str(tmp_path / "one.npz")).numpy(), TABLES["af_heart"])
    path = tmp_path / "am_adam.bin"

    TABLES["am_adam"].astype("<f4").tofile(path)
    np.testing.assert_array_equal(load_voice(narrow, str(path)).numpy(), TABLES["am_adam"])


def test_a_voice_that_an_archive_does_not_have_is_refused_with_the_nearest(voices):
    with pytest.raises(InputError, match=r"has 2 voices; write voices-v1.0.bin:af_heart, for one, or"):
        read_voice(voices, "")
    with pytest.raises(InputError, match=r"has no voice 'af_hart'; write voices-v1.0.bin:af_heart, for one"):
        read_voice(voices, "af_hart")


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
