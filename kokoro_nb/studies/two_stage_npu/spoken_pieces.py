"""A text too long for the largest bucket: cut, spoken in pieces and joined."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from kokoro_nb.delivery.pipeline import Piece, TwoStages, joined
from kokoro_nb.listening.joins import Join, joins


@dataclass(frozen=True, eq=False)
class SpokenPieces:
    """A long text, spoken in pieces.

    Attributes
    ----------
    symbols : str
        Phonemes of the whole text.
    pieces : tuple of Piece
        What was spoken at once.
    audio : numpy.ndarray, shape (samples,), float32
        The joined speech, full scale 1.
    joins : tuple of Join
        Where two pieces meet.
    sr : int
        Sampling rate in Hz.
    """

    symbols: str
    pieces: tuple[Piece, ...]
    audio: np.ndarray
    joins: tuple[Join, ...]
    sr: int

    @property
    def lost(self) -> int:
        """How many phonemes of the text are in no piece; a space is dropped at each cut."""
        missing = Counter(self.symbols) - Counter("".join(piece.symbols for piece in self.pieces))
        del missing[" "]
        return sum(missing.values())

    @property
    def shortest(self) -> int:
        """The shortest duration of a phoneme, frames."""
        return min(int(piece.durations.min()) for piece in self.pieces)

    @property
    def sharpest(self) -> float:
        """The largest sharpness of a join; NaN without one."""
        return float(np.max([one.sharpness for one in self.joins])) if self.joins else float("nan")

    @property
    def loud_cut(self) -> float:
        """Sharpness where the first piece is cut at its loudest, and the second follows without a fade: the control.

        NaN where the text is spoken in one piece.
        """
        if not self.joins:
            return float("nan")
        first, second = self.pieces[0].audio, self.pieces[1].audio
        half = len(first) // 2
        parts = [first[: half + int(np.argmax(np.abs(first[half:])))], second]
        (cut,) = joins(parts, np.concatenate(parts), self.sr)
        return cut.sharpness

    @property
    def unjudged(self) -> str:
        """Why the sharpness of joins says nothing here; empty where it does."""
        if not self.joins:
            return "the text is spoken in one piece; give a longer one, or shorter buckets"
        if self.loud_cut > 1:
            return ""
        return f"meant for speech with pauses: in this, a hard cut is {self.loud_cut:.2g} times as sharp as the rest"

    def rows(self) -> list[dict[str, float]]:
        """Return a row for each join."""
        return [
            {"join (s)": one.at, "level (dB re loudest)": one.level, "sharpness": one.sharpness} for one in self.joins
        ]


def in_pieces(speaker: TwoStages, text: str, voice: str, seed: int) -> SpokenPieces:
    """Speak `text` in as many pieces as it takes."""
    sr, pieces = speaker.contract.sample_rate, speaker.pieces(text, voice, seed=seed)
    audio = [piece.audio for piece in pieces]
    whole = joined(audio, sr)
    return SpokenPieces(speaker.symbols(text), pieces, whole, joins(audio, whole, sr), sr)
