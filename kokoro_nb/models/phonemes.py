"""Text to phonemes, without torch: espeak offline, misaki's English rules where its spaCy model is installed."""

import logging
from functools import cache
from typing import Any, Literal, get_args

from kokoro_nb.errors import InputError

G2P = Literal["auto", "espeak", "misaki"]
SPACY_MODEL = "en_core_web_sm"
SILENT = set(';:,.!?—…"()“” ')  # symbols that are in the table and that nobody can hear


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
