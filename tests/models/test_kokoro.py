import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from kokoro_nb.errors import InputError
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import BUNDLED, PUBLISHED, load_model, reachable_weights
from kokoro_nb.models.voices import load_voice


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
    again = load_model("narrow", seed=0)
    assert again.weights == narrow.weights
    assert load_model("narrow", seed=1).weights.sha256 != narrow.weights.sha256


def test_made_weights_say_so(narrow, seeded, published):
    for kokoro in (narrow, load_model(published)):
        assert not any(module.training for module in kokoro.model.modules())
        assert not any(parameter.requires_grad for parameter in kokoro.model.parameters())
    assert narrow.weights.label.startswith("narrow (random, seed 0; 3.9 M parameters; sha256 ")
    assert seeded.weights.label.startswith("seeded (random, seed 0; 81.8 M parameters; sha256 ")
    assert narrow.voice_file is None
    assert narrow.default_voice == "seeded"


def test_a_local_folder_computes_what_the_original_computes(narrow, published, expected):
    kokoro = load_model(published)
    assert (kokoro.weights.name, kokoro.weights.origin) == ("kokoro-v1_0", "local file")
    assert kokoro.weights.sha256 == narrow.weights.sha256
    assert kokoro.default_voice == "af_heart"
    assert torch.equal(_audio(kokoro), expected)
    assert load_model(str(published / "kokoro-v1_0.pth")).weights == kokoro.weights
    with pytest.raises(InputError, match=r"no voice 'af_hart' beside the weights; there are: af_heart, and 1 other\."):
        load_voice(kokoro, "af_hart")
    with pytest.raises(InputError, match=r"no voice 'bf_emma' beside the weights; there are: af_heart, am_adam\."):
        load_voice(kokoro, "bf_emma")


def test_safetensors_compute_the_same(narrow, copied, expected):
    (copied / "kokoro-v1_0.pth").unlink()
    save_file({key: tensor.contiguous() for key, tensor in narrow.model.state_dict().items()}, copied / "k.safetensors")
    assert torch.equal(_audio(load_model(copied)), expected)


def test_the_source_of_weights_finds_them_from_any_folder(published, cache_repo, tmp_path, monkeypatch):
    cache_repo(published, "hexgrad/Kokoro-82M")
    monkeypatch.chdir(published.parent)
    given = ("narrow", published.name, f"{published.name}/kokoro-v1_0.pth", "hexgrad/Kokoro-82M")
    first = [load_model(name, 3) for name in given]
    monkeypatch.chdir(tmp_path)
    assert [load_model(one.source, 3).weights for one in first] == [one.weights for one in first]


def test_the_hub_cache_computes_the_same_without_a_network(published, cache_repo, expected):
    cache_repo(published, "test/narrow")
    kokoro = load_model("test/narrow")
    assert kokoro.weights.label.startswith("test/narrow (published; 3.9 M parameters; sha256 ")
    assert torch.equal(_audio(kokoro), expected)
    assert torch.equal(_audio(kokoro, "af_heart"), expected)
    absent = r"voices/am_adm\.pt of 'test/narrow' is neither in the hub cache .* in the cache: am_adam, and 1 other\."
    with pytest.raises(InputError, match=absent):
        load_voice(kokoro, "am_adm")


def test_without_voices_the_seeded_one_is_the_default(copied):
    shutil.rmtree(copied / "voices")
    kokoro = load_model(copied)
    assert kokoro.default_voice == "seeded"
    with pytest.raises(InputError, match="there are: none"):
        load_voice(kokoro, "af_heart")


def test_two_weight_files_are_refused(copied):
    shutil.copy(copied / "kokoro-v1_0.pth", copied / "other.pth")
    with pytest.raises(
        InputError, match=r"holds 2 weight files \(\.pth, \.safetensors\); leave one there, or name the file"
    ):
        load_model(copied)


def test_unknown_weights_are_refused_without_asking_the_hub(hub_cache):
    for name in ("nothing", "folder/absent.pth", "./absent"):
        with pytest.raises(InputError, match=r"There are no weights '.*: it is no file or folder; use 'mini'"):
            load_model(name)


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
    with pytest.raises(InputError, match="no weights 'mini'"):
        load_model("mini")
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
