"""The same phrases in every version, and the controls in which nothing can be understood."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kokoro.model import KModel

from kokoro_nb.delivery.decoded import speak_all
from kokoro_nb.listening.judges import PerceivedQuality, identified, perceived_quality, unknown_words
from kokoro_nb.listening.transcript import PHRASES
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import Case, decode
from kokoro_nb.studies.waveform_spectrum import FLOOR, PACKAGE, PATCHED

Signals = Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class PhraseVersions:
    """Some phrases in every version; of each version a signal for each phrase, (600 * frames,) float32, full scale 1.

    Attributes
    ----------
    cases : tuple of Case
        The phrases, as captured.
    audio : dict of str to sequence of numpy.ndarray
        ``package`` (unpatched) first, then ``eager`` with all export patches, and each runtime.
    exact : sequence of numpy.ndarray
        The patched decoder in eager float64.
    controls : dict of str to sequence of numpy.ndarray
        Digital silence, white noise at the level of the speech, and each phrase backwards.
    missing : dict of str to str
        Why a runtime gave nothing, by its name.
    sr : int
        Sampling rate in Hz.
    """

    cases: tuple[Case, ...]
    audio: Mapping[str, Signals]
    exact: Signals
    controls: Mapping[str, Signals]
    missing: Mapping[str, str]
    sr: int = SAMPLE_RATE

    @property
    def texts(self) -> tuple[str, ...]:
        """The phrases as text."""
        return tuple(case.text for case in self.cases)

    @property
    def package(self) -> Signals:
        """The package's own audio, which every other version is compared with."""
        return self.audio[PACKAGE]


def phrase_versions(model: KModel, cases: Sequence[Case], backends: Sequence[str], seed: int = 0) -> PhraseVersions:
    """Decode `cases` in every version, each runtime with one program for all; `seed` is that of the control's noise."""
    speakers = {speaker.backend: speaker for speaker in speak_all(model, cases, [PATCHED, FLOOR, *backends])}
    own: Signals = tuple(decode(model, case) for case in cases)
    others = {name: one.audio for name, one in speakers.items() if one.audio and name != FLOOR}
    missing = {name: one.reason for name, one in speakers.items() if one.reason}
    return PhraseVersions(tuple(cases), {PACKAGE: own, **others}, speakers[FLOOR].audio, _controls(own, seed), missing)


def _controls(own: Signals, seed: int) -> dict[str, Signals]:
    level, draw = float(np.std(own[0])), np.random.default_rng(seed)
    return {
        "silence (control)": [np.zeros_like(y) for y in own],
        "noise (control)": [(level * draw.standard_normal(y.size)).astype(np.float32) for y in own],
        "backwards (control)": [y[::-1].copy() for y in own],
    }


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


def known_sentences(made: PhraseVersions) -> KnownSentences:
    """Identify every phrase of every version and control among the phrases and the 50 sentences of `PHRASES`."""
    choices = list(dict.fromkeys([*made.texts, *PHRASES.read_text(encoding="utf-8").splitlines()]))
    missing = unknown_words(choices)
    if missing:
        return KnownSentences(len(choices), {}, {}, f"the recogniser has no pronunciation of {', '.join(missing)}")
    signals = {**made.audio, **made.controls}
    shares = {
        name: float(np.mean([identified(choices, y, made.sr) == text for y, text in zip(ys, made.texts, strict=True)]))
        for name, ys in signals.items()
    }
    quality = {
        name: tuple(perceived_quality(own, y, made.sr) for own, y in zip(made.package, ys, strict=True))
        for name, ys in signals.items()
        if name != PACKAGE
    }
    return KnownSentences(len(choices), shares, quality)
