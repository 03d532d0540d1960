"""What Whisper hears in every version of the same phrases."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.recogniser import load_whisper, whisper_available
from kokoro_nb.listening.transcript import Transcript, doubts, heard_in, phrase_error_rate
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.studies.waveform_spectrum import PACKAGE
from kokoro_nb.studies.whisper.phrase_versions import PhraseVersions

Transcripts = Sequence[Transcript | None]


@dataclass(frozen=True, eq=False)
class Listening:
    """The transcripts of every version and every control.

    Attributes
    ----------
    versions : PhraseVersions
        What was listened to.
    recogniser : whisper.model.Whisper or None
        None where it is not here.
    reason : str
        Why not.
    heard : dict of str to sequence of Transcript or None
        By version, one for each phrase; None where the audio is not finite. Empty without a recogniser.
    rates : dict of str to float
        Word error rate over all phrases, by version.
    seconds : float
        Time to transcribe one phrase, on the CPU.
    """

    versions: PhraseVersions
    recogniser: Any
    reason: str
    heard: Mapping[str, Transcripts]
    rates: Mapping[str, float]
    seconds: float

    @property
    def points(self) -> dict[str, float]:
        """Percentage points between the error rate of each version and that of the package's own audio."""
        names = [name for name in self.rates if name in self.versions.audio and name != PACKAGE]
        return {name: 100 * (self.rates[name] - self.rates[PACKAGE]) for name in names}

    def transcript_rows(self) -> list[dict[str, Any]]:
        """Return a row for each phrase, with what is heard in each version."""
        return [
            {"phrase": phrase} | {name: one[at].text if one[at] else "not finite" for name, one in self.heard.items()}  # type: ignore[union-attr]
            for at, phrase in enumerate(self.versions.texts if self.heard else ())
        ]

    def rate_rows(self) -> list[dict[str, Any]]:
        """Return a row for each version and each control."""
        return [
            {"version": name, "WER": rate, "points from the package": 100 * (rate - self.rates[PACKAGE])}
            | {"doubted": sum(not t or bool(doubts(t)) for t in self.heard[name]), "phrases": len(self.heard[name])}
            | {"mean log probability": np.mean([t.avg_logprob if t else np.nan for t in self.heard[name]])}
            for name, rate in self.rates.items()
        ]

    def timing_rows(self) -> list[dict[str, str | float]]:
        """Return a row for each word of the first phrase: when it is spoken, and when it is heard."""
        if self.recogniser is None:
            return timing_rows(self.versions.cases[0], None)
        (timed,) = heard_in(self.recogniser, self.versions.package[:1], self.versions.sr, words=True)
        return timing_rows(self.versions.cases[0], timed)


def listen(versions: PhraseVersions, whisper_model: str) -> Listening:
    """Transcribe every version and every control with openai-whisper's model `whisper_model`, if it is here."""
    reason = whisper_available(whisper_model)
    if reason:
        return Listening(versions, None, reason, {}, {}, float("nan"))
    model, signals = load_whisper(whisper_model), {**versions.audio, **versions.controls}
    begin = time.perf_counter()
    heard = {name: heard_in(model, audio, versions.sr) for name, audio in signals.items()}
    seconds = (time.perf_counter() - begin) / sum(map(len, signals.values()))
    rates = {name: phrase_error_rate(versions.texts, found) for name, found in heard.items()}
    return Listening(versions, model, "", heard, rates, seconds)


PAUSES = frozenset(" ,.!?;:—…")


@dataclass(frozen=True)
class SpokenWord:
    """A word of an utterance, by the predicted durations.

    Attributes
    ----------
    phonemes : str
        As the model was given them.
    begin, end : float
        Seconds.
    """

    phonemes: str
    begin: float
    end: float


def word_times(case: Case) -> tuple[SpokenWord, ...]:
    """Return the words of an utterance with the times that the predicted durations give them; pauses are left out.

    Raises
    ------
    InputError
        If a phoneme of the utterance is not in the model's table, so that symbols and tokens do not correspond.
    """
    edges = np.concatenate([[0], np.cumsum(case.tensors["durations"].numpy())]) * SAMPLES_PER_FRAME / SAMPLE_RATE
    if len(case.phonemes) + 3 != len(edges):  # a pad token at each end
        raise InputError(
            f"{len(case.phonemes)} phonemes and {len(edges) - 3} tokens; some symbols are not in the table."
        )
    words, first = [], None
    for at, symbol in enumerate((*case.phonemes, " "), start=1):
        if symbol in PAUSES and first is not None:
            words.append(SpokenWord(case.phonemes[first - 1 : at - 1], float(edges[first]), float(edges[at])))
        first = None if symbol in PAUSES else (at if first is None else first)
    return tuple(words)


def timing_rows(case: Case, transcript: Transcript | None) -> list[dict[str, str | float]]:
    """Return a table: each word of the utterance, when it is spoken and when it was heard, and the difference.

    The list is empty where the listener heard another number of words, or none with times.
    """
    spoken, heard = word_times(case), transcript.words if transcript else ()
    if len(spoken) != len(heard):
        return []
    return [
        {
            "word": listened.text,
            "spoken (s)": word.begin,
            "heard (s)": listened.start,
            "middle apart (s)": (listened.start + listened.end - word.begin - word.end) / 2,
        }
        for word, listened in zip(spoken, heard, strict=True)
    ]
