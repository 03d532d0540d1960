"""Models by name, folder and hub cache, and their voices."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import BUNDLED, PUBLISHED, load_model, reachable_weights
from kokoro_nb.models.voices import SHAPE, SPREAD, load_voice, own_voices, style
from tests.refusals import refused


@pytest.fixture
def copied(published, tmp_path):
    """Return a copy of the published folder, to be spoilt."""
    return shutil.copytree(published, tmp_path / "model")


@pytest.fixture(scope="module")
def expected(narrow, published):
    """Return the audio of the narrow model itself with the published voice."""
    return _audio(narrow, str(published / "voices" / "af_heart.pt"))


def _audio(kokoro, voice=""):
    return capture(kokoro, "Hi there.", voice, g2p="espeak").tensors["audio"]


def test_the_same_seed_gives_the_same_weights_whatever_was_drawn_before(narrow):
    torch.manual_seed(5)
    torch.rand(3)
    assert load_model("narrow", seed=0).weights == narrow.weights
    assert load_model("narrow", seed=1).weights.sha256 != narrow.weights.sha256


def test_a_local_folder_computes_what_the_original_computes(narrow, published, expected):
    kokoro = load_model(published)
    assert (kokoro.weights.name, kokoro.weights.origin) == ("kokoro-v1_0", "local file")
    assert kokoro.weights.sha256 == narrow.weights.sha256
    assert kokoro.default_voice == "af_heart"
    assert torch.equal(_audio(kokoro), expected)
    assert load_model(str(published / "kokoro-v1_0.pth")).weights == kokoro.weights
    assert not any(module.training for module in kokoro.model.modules())
    assert not any(parameter.requires_grad for parameter in kokoro.model.parameters())
    refused(r"no voice 'af_hart' beside the weights; there are: af_heart, and 1 other\.", load_voice, kokoro, "af_hart")


def test_safetensors_compute_the_same(narrow, copied, expected):
    (copied / "kokoro-v1_0.pth").unlink()
    save_file({key: tensor.contiguous() for key, tensor in narrow.model.state_dict().items()}, copied / "k.safetensors")
    assert torch.equal(_audio(load_model(copied)), expected)


def test_the_hub_cache_computes_the_same_without_a_network(published, cache_repo, expected):
    cache_repo(published, "test/narrow")
    kokoro = load_model("test/narrow")
    assert kokoro.weights.label.startswith("test/narrow (published; 3.9 M parameters; sha256 ")
    assert torch.equal(_audio(kokoro), expected)
    assert torch.equal(_audio(kokoro, "af_heart"), expected)
    absent = r"voices/am_adm\.pt of 'test/narrow' is neither in the hub cache .* in the cache: am_adam, and 1 other\."
    refused(absent, load_voice, kokoro, "am_adm")


def test_two_weight_files_are_refused(copied):
    shutil.copy(copied / "kokoro-v1_0.pth", copied / "other.pth")
    refused(r"holds 2 weight files \(\.pth, \.safetensors\); leave one there, or name the file", load_model, copied)


def test_unknown_weights_are_refused_without_asking_the_hub(hub_cache):
    for name in ("nothing", "folder/absent.pth", "./absent"):
        refused(r"no file or folder; use 'mini' \(a small trained voice\), 'seeded'", load_model, name)


def test_reachable_weights_look_for_every_file(hub_cache, cache_repo, published):
    reasons = reachable_weights()
    assert reasons["seeded"] is reasons["narrow"] is None
    assert reasons[PUBLISHED] == "not in the hub cache; loading it needs a network"
    cache_repo(published, PUBLISHED, ["kokoro-v1_0.pth"])
    assert reachable_weights()[PUBLISHED] is not None
    shutil.rmtree(hub_cache)
    cache_repo(published, PUBLISHED)
    assert reachable_weights()[PUBLISHED] is None


def test_the_bundled_voice_speaks_at_a_natural_pace():
    kokoro = load_model("mini")
    assert kokoro.weights.label.startswith("mini (bundled, trained on espeak-ng's voice; 3.9 M parameters")
    assert kokoro.default_voice == "ef_espeak"
    case = capture(kokoro, "The water was cold and the night was long.")
    seconds = case.tensors["audio"].numel() / 24000
    assert 1.5 < seconds < 5  # nine words at 110 to 360 a minute
    assert 0.01 < float(case.tensors["audio"].abs().max()) < 1.5
    voiced = case.tensors["f0"][case.tensors["f0"] > 50]
    assert 80 < float(voiced.median()) < 300  # Hz, of speech


def test_an_absent_bundled_voice_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(BUNDLED, "mini", tmp_path / "kokoro_mini")
    refused("no weights 'mini'", load_model, "mini")
    assert reachable_weights()["mini"] == "kokoro_mini is not in data/"


def test_a_voice_is_given_text_in_its_own_language(published, copied):
    shutil.copy(copied / "voices" / "am_adam.pt", copied / "voices" / "ff_siwis.pt")
    kokoro = load_model(copied)
    french, english = (capture(kokoro, "Une rue.", voice, g2p="espeak") for voice in ("ff_siwis", "am_adam"))
    assert "yn" in french.phonemes
    assert "yn" not in english.phonemes
    assert capture(load_model("mini"), "Une rue.", g2p="espeak").phonemes == english.phonemes, "it speaks English alone"


def test_the_chinese_variant_has_its_own_vocabulary_and_voices(copied, cache_repo, narrow):
    vocab = {symbol: number for number, symbol in enumerate(narrow.model.vocab, 3)} | {"ㄅ": 2}
    config = json.loads((copied / "config.json").read_text(encoding="utf-8")) | {"vocab": vocab}
    (copied / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (copied / "kokoro-v1_0.pth").rename(copied / "kokoro-v1_1-zh.pth")
    (copied / "voices" / "af_heart.pt").rename(copied / "voices" / "af_maple.pt")
    (copied / "voices" / "am_adam.pt").rename(copied / "voices" / "zf_001.pt")
    cache_repo(copied, f"{PUBLISHED}-v1.1-zh")
    for kokoro in (load_model(copied), load_model(f"{PUBLISHED}-v1.1-zh")):
        assert (kokoro.model.vocab, kokoro.default_voice) == (vocab, "af_maple")
        assert kokoro.weights.sha256 == narrow.weights.sha256
        case = capture(kokoro, "Hi there.", g2p="espeak")
        assert case.tensors["ids"][0, 1:-1].tolist() == [vocab[symbol] for symbol in case.phonemes]


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
    assert torch.equal(voice, load_voice(narrow, "seeded:0"))
    assert not torch.equal(voice, load_voice(narrow, "seeded:1"))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_file_is_read_as_it_is(narrow, voice_file, table, suffix):
    path = voice_file(table if suffix == ".pt" else {"voice": table}, suffix)
    assert torch.equal(load_voice(narrow, path), table)


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


FORM, NOT_ONE = r"one float tensor of shape \(510, 1, 256\), .*", "; use one of the model's"
NOT_FINITE = torch.zeros(SHAPE).index_fill(0, torch.tensor([509]), -torch.inf)
SHARES = r"must be positive numbers; write for example a:0\.6\+b:0\.4"
NO_NAME = r"is no name of a voice; use letters, digits and _, or the path of a \.pt file"


@pytest.mark.parametrize(
    ("given", "told"),  # a name, or what is in a file and the end of its name
    [
        ("seeded:1:nan+seeded:2:1", SHARES),
        ("seeded+am_adam:much", r"'am_adam:much' is no part of a blend; write it as name:share"),
        ("seeded+", NO_NAME),
        ("no/absent.pt", r"There is no file .*absent\.pt; check the path"),
        ((torch.zeros(510, 256), ".pt"), rf"{FORM}not torch\.float32 \(510, 256\){NOT_ONE}"),
        (({"voice": torch.zeros(SHAPE)}, ".pt"), f"{FORM}not dict{NOT_ONE}"),
        (({"style": torch.zeros(SHAPE)}, ".safetensors"), f"{FORM}not NoneType{NOT_ONE}"),
        ((NOT_FINITE, ".pt"), r"voice\.pt holds NaN or infinity; it is damaged, copy it again"),
    ],
)
def test_what_is_no_voice_and_no_whole_file_of_one_is_refused(narrow, voice_file, given, told):
    refused(told, load_voice, narrow, given if isinstance(given, str) else voice_file(*given))


def test_style_is_the_row_for_the_number_of_phonemes(table):
    assert torch.equal(style(table, "a"), table[0])
    assert torch.equal(style(table, "a" * 510), table[509])
    refused("A style is for 1 to 510 phonemes, not 511; split or mend the text", style, table, "a" * 511)


def test_two_voices_and_their_blend_can_be_loaded_with_any_weights(narrow, published):
    local, bundled = load_model(published), load_model("mini")
    expected = {
        "a folder": (local, ["af_heart", "am_adam", "af_heart:0.5+am_adam:0.5"]),
        "bundled": (bundled, ["ef_espeak", "em_espeak", "ef_espeak:0.5+em_espeak:0.5"]),
        "a hub's": (replace(local, voices=()), ["af_heart", "seeded:1", "af_heart:0.5+seeded:1:0.5"]),
    }
    for kokoro, names in expected.values():
        assert own_voices(kokoro) == names
        first, second, both = (load_voice(kokoro, name) for name in names)
        torch.testing.assert_close(both, (first + second) / 2)
