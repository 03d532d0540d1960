"""Text to phonemes, without torch: espeak offline, misaki's own rules where what they need is installed."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from kokoro_nb.errors import InputError

if TYPE_CHECKING:
    import torch

G2P = Literal["auto", "espeak", "misaki"]
# first letter of a published voice's name -> espeak's name of the language
LANGUAGES = {"a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "p": "pt-br"}
PUBLISHED_VOICE = re.compile(r"(?:^|:)([abefhijpz])[fm]_\w+")  # Japanese and Chinese, j and z, are not spoken here
SPACY_MODEL = "en_core_web_sm"
SILENT = set(';:,.!?—…"()“” ')  # symbols that are in the table and that nobody can hear


def voice_language(voice: str) -> str:
    """Return the language of a voice by its published name, a letter as in `LANGUAGES`; ``a`` where the name says none.

    >>> voice_language("ff_siwis:0.5,ff_other"), voice_language("voices.bin:bm_lewis"), voice_language("seeded")
    ('f', 'b', 'a')
    """
    found = PUBLISHED_VOICE.search(voice)
    return found[1] if found else "a"


def phonemise(text: str, g2p: G2P = "auto", language: str = "a") -> tuple[str, str]:
    """Turn text into phonemes.

    Parameters
    ----------
    text : str
        In that language.
    g2p : {"auto", "espeak", "misaki"}
        ``misaki`` is the published model's own and needs spaCy's ``en_core_web_sm`` for English; ``espeak`` works
        anywhere; ``auto`` takes misaki where it can run. Spanish, French, Hindi, Italian and Portuguese are espeak's in
        misaki too.
    language : str
        A letter of `LANGUAGES`, as the published voices' names begin with; American English by default.

    Returns
    -------
    tuple of str
        The phonemes, and which of the two made them.

    Raises
    ------
    InputError
        If the text is empty, or `g2p` or `language` is unknown or cannot run here.
    """
    if not text.strip():
        raise InputError("The text is empty; give at least one word.")
    if g2p not in get_args(G2P):
        raise InputError(f"There is no g2p '{g2p}'; use one of {', '.join(get_args(G2P))}.")
    if language not in LANGUAGES:
        known = ", ".join(f"{letter} ({name})" for letter, name in LANGUAGES.items())
        raise InputError(f"There is no language '{language}'; use one of {known}.")
    if language not in "ab":
        g2p = "espeak"
    elif g2p == "auto":
        g2p = "misaki" if _has_spacy_model() else "espeak"
    elif g2p == "misaki" and not _has_spacy_model():
        raise InputError(f"misaki's English rules need the spaCy model {SPACY_MODEL}; install it, or use g2p='espeak'.")
    return _engine(g2p, language)(text)[0].strip(), g2p


def _has_spacy_model() -> bool:
    from importlib.util import find_spec

    return find_spec(SPACY_MODEL) is not None


@cache
def _engine(g2p: str, language: str) -> Any:
    if g2p == "espeak":
        from misaki.espeak import EspeakG2P

        engine: Any = EspeakG2P(LANGUAGES[language])
    else:
        from misaki import en
        from misaki.espeak import EspeakFallback

        british = language == "b"
        engine = en.G2P(trf=False, british=british, fallback=EspeakFallback(british=british))
    # phonemizer sets the level when it is built, and warns whenever espeak joins two words: in most sentences
    logging.getLogger("phonemizer").setLevel(logging.ERROR)
    return engine


@dataclass(frozen=True)
class Phonemes:
    """A phoneme string and its ids.

    Attributes
    ----------
    symbols : str
        Phonemes, as the model's table spells them.
    ids : torch.Tensor, shape (1, phonemes + 2), int64
        With the pad token 0 at either end, as the model expects.
    g2p : str
        ``espeak`` or ``misaki``.
    """

    symbols: str
    ids: "torch.Tensor"
    g2p: str


def encode(vocab: Mapping[str, int], text: str, g2p: G2P = "auto", language: str = "a") -> Phonemes:
    """Turn text into the ids that the model reads; symbols that its table lacks have none, as in the package.

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
    import torch

    from kokoro_nb.models.architecture import MAX_PHONEMES

    symbols, engine = phonemise(text, g2p, language)
    known = [symbol for symbol in symbols if symbol in vocab]
    if not any(symbol not in SILENT for symbol in known):
        raise InputError(f"Nothing in the text {text!r} can be pronounced; give at least one word.")
    if len(symbols) > MAX_PHONEMES:
        longer = f"The text has {len(symbols)} phonemes and the model takes {MAX_PHONEMES}"
        raise InputError(f"{longer}; split it into shorter sentences.")
    ids = torch.tensor([[0, *(vocab[symbol] for symbol in known), 0]])
    return Phonemes(symbols, ids, engine)
