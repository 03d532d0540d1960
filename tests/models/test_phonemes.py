import pytest
import torch

from kokoro_nb.models import phonemes
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.phonemes import LANGUAGES, SILENT, encode, phonemise, voice_language
from tests.refusals import refused


def test_espeak_speaks_the_model_s_symbols():
    assert phonemise("Hello world", "espeak") == ("həlˈO wˈɜːld", "espeak")


@pytest.mark.parametrize("installed", [True, False])
def test_auto_takes_misaki_only_where_its_model_is_installed(monkeypatch, installed):
    monkeypatch.setattr(phonemes, "_has_spacy_model", lambda: installed)
    monkeypatch.setattr(phonemes, "_engine", lambda name, language: lambda text: (f"{name}: {text}", None))
    name = "misaki" if installed else "espeak"
    assert phonemise("Hi") == (f"{name}: Hi", name)


def test_misaki_without_its_model_says_what_to_install(monkeypatch):
    monkeypatch.setattr(phonemes, "_has_spacy_model", lambda: False)
    refused("need the spaCy model en_core_web_sm; install it, or use g2p='espeak'", phonemise, "Hi", "misaki")


@pytest.mark.parametrize(
    ("language", "text", "sound"), [("e", "gracias", "θ"), ("f", "une rue", "yn"), ("h", "धन्यवाद", "ʋ")]
)
def test_languages_that_install_offline_are_spoken_in_the_models_symbols(language, text, sound):
    symbols, engine = phonemise(text, "espeak", language)
    assert (sound in symbols, engine) == (True, "espeak"), symbols
    assert language == "h" or sound not in phonemise(text, "espeak")[0], "English says it otherwise"
    vocab = full_config()["vocab"]
    assert [one for one in symbols if one not in vocab and one not in SILENT] == []


@pytest.mark.parametrize("voice", ["jf_alpha", "zm_yunxi"])
def test_a_language_that_espeak_writes_otherwise_is_refused(voice):
    refused(f"no language '{voice[0]}'; use one of a ", phonemise, "x", "auto", voice_language(voice))


def test_a_voices_name_says_its_language():
    assert [voice_language(f"{letter}f_name") for letter in LANGUAGES] == list(LANGUAGES)
    assert voice_language("voices-v1.0.bin:jm_kumo") == "j"
    assert voice_language("bf_emma:0.5,af_heart:0.5") == "b"
    assert {voice_language(name) for name in ("", "seeded:3", "kf_name", "folder/mine.pt")} == {"a"}


VOCAB = full_config()["vocab"]


def test_ids_spell_the_phonemes_between_two_pads():
    found = encode(VOCAB, "Hello world", "espeak")
    assert found.ids.shape == (1, len(found.symbols) + 2)
    assert found.ids.dtype == torch.int64
    spelt = {number: symbol for symbol, number in VOCAB.items()}
    assert found.ids[0, 0] == found.ids[0, -1] == 0
    assert "".join(spelt[number] for number in found.ids[0, 1:-1].tolist()) == found.symbols
    assert found.g2p == "espeak"
    lacking = encode(VOCAB, "Hello.\nWorld", "espeak")
    assert lacking.ids.shape == (1, len(lacking.symbols) - 1 + 2)  # the table has no line break


def test_text_that_nobody_can_pronounce_is_refused():
    for text in ("—", "\u200b", '"!"'):
        refused(r"Nothing in the text .* can be pronounced; give at least one word", encode, VOCAB, text, "espeak")


def test_the_limit_is_510_phonemes(monkeypatch):
    monkeypatch.setattr(phonemes, "phonemise", lambda text, g2p, language, **options: (text, "espeak"))
    assert encode(VOCAB, "a" * 510, "espeak").ids.shape == (1, 512)
    refused("The text has 511 phonemes and the model takes 510; split it", encode, VOCAB, "a" * 511, "espeak")
