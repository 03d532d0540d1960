import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import phonemes
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.phonemes import encode

VOCAB = full_config()["vocab"]


def test_ids_spell_the_phonemes_between_two_pads():
    phonemes = encode(VOCAB, "Hello world", "espeak")
    assert phonemes.ids.shape == (1, len(phonemes.symbols) + 2)
    assert phonemes.ids.dtype == torch.int64
    spelt = {number: symbol for symbol, number in VOCAB.items()}
    assert phonemes.ids[0, 0] == phonemes.ids[0, -1] == 0
    assert "".join(spelt[number] for number in phonemes.ids[0, 1:-1].tolist()) == phonemes.symbols
    assert (phonemes.text, phonemes.g2p, phonemes.dropped) == ("Hello world", "espeak", "")


def test_symbols_that_the_table_lacks_are_counted_not_hidden():
    phonemes = encode(VOCAB, "Hello.\nWorld", "espeak")
    assert phonemes.dropped == "\n"
    assert phonemes.ids.shape == (1, len(phonemes.symbols) - 1 + 2)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_text_is_refused(text):
    with pytest.raises(InputError, match="The text is empty; give at least one word"):
        encode(VOCAB, text, "espeak")


@pytest.mark.parametrize("text", ["...", "—", "\u200b", '"!"'])
def test_text_that_nobody_can_pronounce_is_refused(text):
    with pytest.raises(InputError, match=r"Nothing in the text .* can be pronounced; give at least one word"):
        encode(VOCAB, text, "espeak")


def test_the_limit_is_510_phonemes(monkeypatch):
    monkeypatch.setattr(phonemes, "phonemise", lambda text, g2p, language, **options: (text, "espeak"))
    assert encode(VOCAB, "a" * 510, "espeak").ids.shape == (1, 512)
    with pytest.raises(InputError, match="The text has 511 phonemes and the model takes 510; split it"):
        encode(VOCAB, "a" * 511, "espeak")
