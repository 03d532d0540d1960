"""Text to the ids that the model reads."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import MAX_PHONEMES
from kokoro_nb.models.phonemes import G2P, SILENT, phonemise

BOPOMOFO = "ㄅ"  # a symbol of v1.1-zh, which writes Chinese as it is spelled; v1.0 has it in phonemes


@dataclass(frozen=True)
class Phonemes:
    """A phoneme string and its ids.

    Attributes
    ----------
    text : str
        The text, as given.
    symbols : str
        Phonemes, as the model's table spells them.
    ids : torch.Tensor, shape (1, phonemes + 2), int64
        With the pad token 0 at either end, as the model expects.
    dropped : str
        Symbols that the table does not have; the package drops them silently.
    g2p : str
        ``espeak`` or ``misaki``.
    """

    text: str
    symbols: str
    ids: torch.Tensor
    dropped: str
    g2p: str


def encode(vocab: Mapping[str, int], text: str, g2p: G2P = "auto", language: str = "a") -> Phonemes:
    """Turn text into the ids that the model reads.

    Parameters
    ----------
    vocab : mapping
        Symbol -> id, the model's own table.
    text : str
        In that language.
    g2p : {"auto", "espeak", "misaki"}
        See `phonemes.phonemise`.
    language : str
        A letter of `phonemes.LANGUAGES`; American English by default.

    Raises
    ------
    InputError
        If the text is empty, if nothing in it can be pronounced, or if it is longer than 510 phonemes.
    """
    symbols, engine = phonemise(text, g2p, language, bopomofo=BOPOMOFO in vocab)
    known = [symbol for symbol in symbols if symbol in vocab]
    if not any(symbol not in SILENT for symbol in known):
        raise InputError(f"Nothing in the text {text!r} can be pronounced; give at least one word.")
    if len(symbols) > MAX_PHONEMES:
        raise InputError(
            f"The text has {len(symbols)} phonemes and the model takes {MAX_PHONEMES}; split it into shorter sentences."
        )
    ids = torch.tensor([[0, *(vocab[symbol] for symbol in known), 0]])
    dropped = "".join(symbol for symbol in symbols if symbol not in vocab)
    return Phonemes(text, symbols, ids, dropped, engine)
