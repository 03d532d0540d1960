"""The few of whisper's tokens that the small ear ever says, and the sequences that it is taught."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from training.sentences import VOCABULARY

END_STEP = 0.1  # seconds: ends are no finer; whisper's own grid is 0.02
LONGEST = 8.0  # seconds


@dataclass(frozen=True)
class Tokens:
    """Which of whisper's tokens are trained; everything else here is an index into `ids`.

    Attributes
    ----------
    ids : tuple of int
        Whisper's numbers, rising.
    words : dict
        Word -> its tokens, those of ``" word"``.
    start, end, silent, untimed : int
        ``<|startoftranscript|>``, ``<|endoftext|>``, ``<|nospeech|>``, ``<|notimestamps|>``.
    times : tuple of int
        ``<|0.00|>``, ``<|0.10|>``, ...
    """

    ids: tuple[int, ...]
    words: dict[str, tuple[int, ...]]
    start: int
    end: int
    silent: int
    untimed: int
    times: tuple[int, ...]

    def time(self, seconds: float) -> int:
        """Return the first timestamp that is not before `seconds`."""
        return self.times[min(math.ceil(seconds / END_STEP - 1e-6), len(self.times) - 1)]

    def text(self, indices: list[int]) -> str:
        """Return what `indices` say; special tokens say nothing."""
        return tokenizer().decode([self.ids[at] for at in indices if self.ids[at] < tokenizer().eot]).strip()


@cache
def tokenizer() -> Any:
    """Return whisper's tokenizer for English."""
    from whisper.tokenizer import get_tokenizer

    return get_tokenizer(multilingual=False)


@cache
def trained_tokens() -> Tokens:
    """Return the tokens of the vocabulary, of times up to 8 s, and the special ones."""
    whole = tokenizer()
    spelt = {word: whole.encode(f" {word}") for word in VOCABULARY}
    times = [whole.timestamp_begin + round(at * END_STEP / 0.02) for at in range(round(LONGEST / END_STEP) + 1)]
    special = [whole.sot, whole.eot, whole.no_speech, whole.no_timestamps]
    ids = tuple(sorted({token for tokens in spelt.values() for token in tokens} | {*special, *times}))
    index = {token: at for at, token in enumerate(ids)}
    start, end, silent, untimed = (index[token] for token in special)
    words = {word: tuple(index[token] for token in tokens) for word, tokens in spelt.items()}
    return Tokens(ids, words, start, end, silent, untimed, tuple(index[token] for token in times))
