import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.models import phonemes
from kokoro_nb.models.phonemes import phonemise


def test_espeak_speaks_the_model_s_symbols():
    assert phonemise("Hello world", "espeak") == ("həlˈO wˈɜːld", "espeak")


@pytest.mark.parametrize("installed", [True, False])
def test_auto_takes_misaki_only_where_its_model_is_installed(monkeypatch, installed):
    monkeypatch.setattr(phonemes, "_has_spacy_model", lambda: installed)
    monkeypatch.setattr(phonemes, "_engine", lambda name: lambda text: (f"{name}: {text}", None))
    name = "misaki" if installed else "espeak"
    assert phonemise("Hi") == (f"{name}: Hi", name)


def test_misaki_without_its_model_says_what_to_install(monkeypatch):
    monkeypatch.setattr(phonemes, "_has_spacy_model", lambda: False)
    with pytest.raises(InputError, match="need the spaCy model en_core_web_sm; install it, or use g2p='espeak'"):
        phonemise("Hi", "misaki")


def test_an_unknown_g2p_is_refused():
    with pytest.raises(InputError, match="There is no g2p 'guess'; use one of auto, espeak, misaki"):
        phonemise("Hi", "guess")
