"""Text to phonemes to ids: espeak offline, misaki's English rules where its spaCy model is installed."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import MAX_PHONEMES

G2P = Literal["auto", "espeak", "misaki"]
SPACY_MODEL = "en_core_web_sm"
SILENT = set(';:,.!?—…"()“” ')  # symbols that are in the table and that nobody can hear


@dataclass(frozen=True)
class Phonemes:
    """A phoneme string and its ids.

    Attributes
    ----------
    text : str
        What was asked for.
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


def phonemise(text: str, g2p: G2P = "auto") -> tuple[str, str]:
    """Turn English text into phonemes.

    Parameters
    ----------
    text : str
        American English.
    g2p : {"auto", "espeak", "misaki"}
        ``misaki`` is the published model's own and needs spaCy's ``en_core_web_sm``; ``espeak`` works anywhere;
        ``auto`` takes misaki where it can run.

    Returns
    -------
    tuple of str
        The phonemes, and which of the two made them.

    Raises
    ------
    InputError
        If the text is empty, or `g2p` is unknown or cannot run here.
    """
    if not text.strip():
        raise InputError("The text is empty; give at least one word.")
    if g2p not in get_args(G2P):
        raise InputError(f"There is no g2p '{g2p}'; use one of {', '.join(get_args(G2P))}.")
    if g2p == "auto":
        g2p = "misaki" if _has_spacy_model() else "espeak"
    if g2p == "misaki" and not _has_spacy_model():
        raise InputError(f"misaki's English rules need the spaCy model {SPACY_MODEL}; install it, or use g2p='espeak'.")
    symbols, _ = _engine(g2p)(text)
    return symbols.strip(), g2p


def encode(vocab: Mapping[str, int], text: str, g2p: G2P = "auto") -> Phonemes:
    """Turn text into the ids that the model reads.

    Parameters
    ----------
    vocab : mapping
        Symbol -> id, the model's own table.
    text : str
        American English.
    g2p : {"auto", "espeak", "misaki"}
        See `phonemise`.

    Raises
    ------
    InputError
        If the text is empty, if nothing in it can be pronounced, or if it is longer than 510 phonemes.
    """
    symbols, engine = phonemise(text, g2p)
    kept = [symbol for symbol in symbols if symbol in vocab]
    if not any(symbol not in SILENT for symbol in kept):
        raise InputError(f"Nothing in the text {text!r} can be pronounced; give at least one English word.")
    if len(symbols) > MAX_PHONEMES:
        raise InputError(
            f"The text has {len(symbols)} phonemes and the model takes {MAX_PHONEMES}; split it into shorter sentences."
        )
    ids = torch.tensor([[0, *(vocab[symbol] for symbol in kept), 0]])
    dropped = "".join(symbol for symbol in symbols if symbol not in vocab)
    return Phonemes(text, symbols, ids, dropped, engine)


def _has_spacy_model() -> bool:
    from importlib.util import find_spec

    return find_spec(SPACY_MODEL) is not None


@cache
def _engine(g2p: str) -> Any:
    if g2p == "misaki":
        from misaki import en
        from misaki.espeak import EspeakFallback

        engine = en.G2P(trf=False, british=False, fallback=EspeakFallback(british=False))
    else:
        from misaki.espeak import EspeakG2P

        engine = EspeakG2P("en-us")
    # phonemizer sets the level when it is built, and warns whenever espeak joins two words: in most sentences
    logging.getLogger("phonemizer").setLevel(logging.ERROR)
    return engine
