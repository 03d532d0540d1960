"""Which sentence, and which of six words that rhyme, a recogniser that learnt from people hears in either speech."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.listening.closed_set import CARRIER, identified, rhyme_sets, unknown_words
from kokoro_nb.listening.phrases import PHRASES
from kokoro_nb.listening.waveform import rms
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.studies.voice.recordings import SentencePairs, voice_in
from kokoro_nb.training.corpus import VOICES
from kokoro_nb.training.espeak import speak

Trial = tuple[Sequence[str], str, np.ndarray, np.ndarray]  # choices, what was said, by espeak, by the model


@dataclass(frozen=True)
class Identification:
    """The share of trials in which what was said was heard, 0 to 1.

    Attributes
    ----------
    task : str
        ``sentences`` or ``rhymes``.
    trials : int
    chance : float
        The share that guessing gets.
    espeak, model : float
        Of either's speech.
    backwards, noisy : float
        Of the controls: the model's speech backwards, and beneath noise ten times as strong.
    """

    task: str
    trials: int
    chance: float
    espeak: float
    model: float
    backwards: float
    noisy: float

    @property
    def spread(self) -> float:
        """Two standard errors of the difference of two such shares, each as uncertain as espeak's.

        One success and one failure are added, so that it is not 0 where all were heard (Agresti and Coull, 1998).
        """
        share = (self.espeak * self.trials + 1) / (self.trials + 2)
        return float(2 * np.sqrt(2 * share * (1 - share) / self.trials))

    @property
    def by_chance(self) -> float:
        """What guessing stays below in all but a few cases of a hundred: chance and two standard errors."""
        return float(self.chance + 2 * np.sqrt(self.chance * (1 - self.chance) / self.trials))

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, in percent."""
        shares = {"espeak": self.espeak, "model": self.model, "backwards (control)": self.backwards}
        shares |= {"noise at -10 dB (control)": self.noisy, "chance": self.chance}
        return {"choice among": self.task, "trials": self.trials} | {f"{k} (%)": 100 * v for k, v in shares.items()}


def identifications(kokoro: Kokoro, pairs: SentencePairs, seed: int = 0) -> tuple[Identification, ...]:
    """Let the recogniser choose: among the sentences of `pairs` and 50 others, and among words that rhyme.

    There are as many sets of words as sentences, one word of each drawn by the seed, in every voice.
    """
    return (
        _judged("sentences", tuple(_sentences(pairs)), seed),
        _judged("rhymes", tuple(_rhymes(kokoro, len(pairs.model) // len(pairs.voices), seed)), seed),
    )


def _judged(task: str, trials: Sequence[Trial], seed: int) -> Identification:
    draw = np.random.default_rng(seed)

    def share(of: Callable[[Trial], np.ndarray]) -> float:
        heard = [identified(trial[0], of(trial), SAMPLE_RATE) == trial[1] for trial in trials]
        return float(np.mean(heard)) if heard else float("nan")

    def noisy(trial: Trial) -> np.ndarray:
        return trial[3] + draw.normal(0, np.sqrt(10) * rms(trial[3]), len(trial[3]))

    chance = float(np.mean([1 / len(choices) for choices, *_ in trials])) if trials else float("nan")
    shares = [share(of) for of in (lambda t: t[2], lambda t: t[3], lambda t: t[3][::-1], noisy)]
    return Identification(task, len(trials), chance, *shares)


def _sentences(pairs: SentencePairs) -> Iterator[Trial]:
    known = dict.fromkeys([*(one.text for one in pairs.espeak), *PHRASES.read_text(encoding="utf-8").splitlines()])
    choices = [text for text in known if not unknown_words([text])]
    for espeak, model in zip(pairs.espeak, pairs.model, strict=True):
        if espeak.text in choices:
            yield choices, espeak.text, espeak.audio, model.audio


def _rhymes(kokoro: Kokoro, count: int, seed: int) -> Iterator[Trial]:
    draw = np.random.default_rng(seed)
    for words in rhyme_sets(min(count, 50)):
        choices = [CARRIER.format(word) for word in words if not unknown_words([word])]
        said = choices[draw.integers(len(choices))]
        for name, voice in VOICES.items():
            case = capture(kokoro, said, voice_in(kokoro, name), seed=seed, g2p="espeak")
            yield choices, said, speak(said, **voice).audio, case.tensors["audio"].numpy()
