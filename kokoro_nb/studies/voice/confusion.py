"""What a linear discriminant, fitted to espeak's speech alone, takes each phoneme of a recording for."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.listening.formants import HOP, Floats
from kokoro_nb.listening.spectrum import floored_db, mel_spectrogram
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.studies.voice.recordings import Recording, SentencePairs, fitting_sentences, misplaced
from kokoro_nb.studies.voice.vowel_formants import by_kind

COEFFICIENTS = 13  # mel cepstra, the level (the zeroth) left out
PARTS = 3  # each phoneme's beginning, middle and end


@dataclass(frozen=True)
class Confusion:
    """What the phonemes of some recordings were taken for.

    Attributes
    ----------
    pairs : tuple of (str, str)
        (said, taken for), one for every token.
    """

    pairs: tuple[tuple[str, str], ...]

    @property
    def accuracy(self) -> float:
        """Share of tokens that were taken for what they are."""
        return float(np.mean([said == heard for said, heard in self.pairs]))

    def of(self, phoneme: str) -> tuple[int, float]:
        """Return the number of tokens of `phoneme` and the share that was recognised, NaN without tokens."""
        heard = [heard == phoneme for said, heard in self.pairs if said == phoneme]
        return len(heard), float(np.mean(heard)) if heard else float("nan")

    def matrix(self, said: Sequence[str], heard: Sequence[str]) -> Floats:
        """Return shares, shape (said, heard): what each of `said` was taken for; NaN in rows without tokens."""
        counts = np.zeros((len(said), len(heard)))
        for one, other in self.pairs:
            counts[said.index(one), heard.index(other)] += 1
        with np.errstate(invalid="ignore"):
            return counts / counts.sum(axis=1, keepdims=True)

    def errors(self, count: int) -> list[tuple[str, str, int]]:
        """Return the `count` most frequent confusions: (said, taken for, how often)."""
        wrong = Counter(pair for pair in self.pairs if pair[0] != pair[1])
        return [(said, heard, times) for (said, heard), times in wrong.most_common(count)]


@dataclass(frozen=True)
class PhonemeJudge:
    """A linear discriminant for each voice, fitted to espeak's speech."""

    fitted: dict[str, Any]

    def __call__(self, recordings: Iterable[Recording]) -> Confusion:
        """Classify every phoneme of `recordings`."""
        pairs: list[tuple[str, str]] = []
        for recording in recordings:
            said, features = _features(recording)
            pairs += zip(said, self.fitted[recording.voice].predict(features).tolist(), strict=True)
        return Confusion(tuple(pairs))


def fit_judge(recordings: Sequence[Recording]) -> PhonemeJudge:
    """Fit a discriminant for each voice in `recordings`, which are espeak's and of other sentences than are judged."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    fitted = {}
    for voice in dict.fromkeys(recording.voice for recording in recordings):
        said, features = zip(*(_features(r) for r in recordings if r.voice == voice), strict=True)
        judge = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        fitted[voice] = judge.fit(np.concatenate(features), [label for labels in said for label in labels])
    return PhonemeJudge(fitted)


@dataclass(frozen=True)
class Confusions:
    """What the discriminant takes espeak's and the model's held-out phonemes for.

    Attributes
    ----------
    ceiling, model, control : Confusion
        espeak's own speech; the model's; and the model's audio at the wrong places.
    """

    ceiling: Confusion
    model: Confusion
    control: Confusion

    @property
    def spoken(self) -> list[str]:
        """All phonemes that were said, vowels first."""
        return sorted({said for said, _ in self.model.pairs}, key=by_kind)

    @property
    def recognised(self) -> list[str]:
        """All phonemes that were said or recognised, vowels first."""
        pairs = (pair for one in (self.ceiling, self.model) for pair in one.pairs)
        return sorted({phoneme for pair in pairs for phoneme in pair}, key=by_kind)

    @property
    def table(self) -> list[dict[str, Any]]:
        """Accuracy of each kind of speech."""
        named = {"espeak (ceiling)": self.ceiling, "model": self.model, "control: audio turned by half": self.control}
        return [{"speech": name, "phonemes": len(one.pairs), "accuracy": one.accuracy} for name, one in named.items()]

    @property
    def by_phoneme(self) -> list[dict[str, Any]]:
        """Number of tokens and shares recognised of each phoneme."""
        model, ceiling = self.model, self.ceiling
        return [
            {"phoneme": p, "tokens": model.of(p)[0], "espeak": ceiling.of(p)[1], "model": model.of(p)[1]}
            for p in self.spoken
        ]

    @property
    def most_frequent(self) -> list[dict[str, Any]]:
        """The eight most frequent confusions, of espeak and of the model."""
        return [
            {"speech": name, "said": said, "taken for": taken, "times": times}
            for name, one in (("espeak", self.ceiling), ("model", self.model))
            for said, taken, times in one.errors(8)
        ]


def confusions(pairs: SentencePairs, vocab: dict[str, int], count: int, seed: int = 0) -> Confusions:
    """Fit the discriminant to `count` other sentences by espeak, and classify the phonemes of `pairs`.

    Parameters
    ----------
    pairs : SentencePairs
    vocab : dict
        Symbol -> id, the model's.
    count : int
    seed : int
        Of the other sentences.
    """
    judge = fit_judge(fitting_sentences(count, seed, vocab))
    return Confusions(judge(pairs.espeak), judge(pairs.model), judge(misplaced(pairs.model)))


def _features(recording: Recording) -> tuple[list[str], Floats]:
    """Return each phoneme and the mean mel cepstra, in dB, of its beginning, middle and end: (phonemes, 39)."""
    import librosa

    power = mel_spectrogram(recording.audio, SAMPLE_RATE, n_fft=512, hop_length=HOP, n_mels=40)
    decibels = floored_db(power, power.max(), -80.0)
    cepstra = librosa.feature.mfcc(S=decibels, n_mfcc=1 + COEFFICIENTS)[1:].T
    said, rows = [], []
    for phoneme, begin, end in recording.phonemes():
        parts = np.array_split(cepstra[begin // HOP : end // HOP], PARTS)
        said.append(phoneme)
        rows.append(np.concatenate([part.mean(axis=0) for part in parts]))
    return said, np.stack(rows)
