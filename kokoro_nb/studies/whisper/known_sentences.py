"""Which sentence a recogniser that learnt from people identifies in every version of some phrases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.listening.judges import PerceivedQuality, identified, perceived_quality, unknown_words
from kokoro_nb.listening.transcript import PHRASES
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.studies.waveform_spectrum import PACKAGE

Signals = Sequence[np.ndarray]


@dataclass(frozen=True)
class KnownSentences:
    """What was heard.

    Attributes
    ----------
    choices : int
        Number of sentences to choose from.
    shares : mapping
        Version or control -> share of the phrases that were identified, 0 to 1.
    quality : mapping
        Version or control, but the package -> the judges' figures, a PerceivedQuality for each phrase.
    reason : str
        Why nothing was listened to; empty where it was.
    """

    choices: int
    shares: Mapping[str, float]
    quality: Mapping[str, tuple[PerceivedQuality, ...]]
    reason: str = ""

    @property
    def understood(self) -> bool:
        """Whether the package's own audio is identified at least in half: else no version can lose anything."""
        return bool(self.shares.get(PACKAGE, 0) >= 0.5)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each version and each control; PESQ and STOI are means over the phrases."""
        rows = []
        for name, share in self.shares.items():
            row: dict[str, Any] = {"version": name, f"identified among {self.choices} (%)": 100 * share}
            if name in self.quality:
                row["PESQ against the package (MOS)"] = float(np.mean([one.pesq for one in self.quality[name]]))
                row["STOI against the package (0 to 1)"] = float(np.mean([one.stoi for one in self.quality[name]]))
            rows.append(row)
        return rows


def known_sentences(texts: Sequence[str], signals: Mapping[str, Signals]) -> KnownSentences:
    """Identify every phrase of every version and control among the phrases and the 50 sentences of `PHRASES`.

    Parameters
    ----------
    texts : sequence of str
        What was said.
    signals : mapping
        Version or control, ``package`` among them -> a signal for each text, full scale 1, 24 kHz.
    """
    choices = list(dict.fromkeys([*texts, *PHRASES.read_text(encoding="utf-8").splitlines()]))
    missing = unknown_words(choices)
    if missing:
        return KnownSentences(len(choices), {}, {}, f"the recogniser has no pronunciation of {', '.join(missing)}")
    shares = {
        name: float(np.mean([identified(choices, y, SAMPLE_RATE) == text for y, text in zip(ys, texts, strict=True)]))
        for name, ys in signals.items()
    }
    quality = {
        name: tuple(perceived_quality(own, y, SAMPLE_RATE) for own, y in zip(signals[PACKAGE], ys, strict=True))
        for name, ys in signals.items()
        if name != PACKAGE
    }
    return KnownSentences(len(choices), shares, quality)
