"""Sentences as espeak and as the model say them, with the time of every phoneme."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import percent_finite
from kokoro_nb.models import voices
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.phonemes import SILENT
from kokoro_nb.training.alignment import STRESS
from kokoro_nb.training.corpus import VOICES, AlignedSentence, utterance
from kokoro_nb.training.samples import held_out_utterances
from kokoro_nb.training.sentences import punctuated, sentences, word_lists
from kokoro_nb.training.shards import first_aligned


@dataclass(frozen=True)
class Recording:
    """A sentence as it was said.

    Attributes
    ----------
    text : str
    voice : str
        A name of `VOICES`.
    symbols : str
        Phonemes with stress marks, spaces and punctuation, without the pad tokens.
    durations : numpy.ndarray, shape (symbols + 2,), int64, frames of 600 samples
        With the pad tokens' at either end.
    audio : numpy.ndarray, shape (600 * frames,), float32
        At 24 kHz.

    Raises
    ------
    InputError
        If the durations do not add up to the audio, or the audio is not finite.
    """

    text: str
    voice: str
    symbols: str
    durations: NDArray[np.int64]
    audio: NDArray[np.float32]

    def __post_init__(self) -> None:
        samples = int(self.durations.sum()) * SAMPLES_PER_FRAME
        if len(self.durations) != len(self.symbols) + 2 or samples != len(self.audio):
            raise InputError(
                f"{len(self.symbols)} symbols with {len(self.durations)} durations of {samples} samples do not fit "
                f"{len(self.audio)} samples of audio; give the durations that the audio was made with."
            )
        if not np.isfinite(self.audio).all():
            raise InputError(f"The audio of {self.text!r} is {percent_finite(self.audio)}: it cannot be compared.")

    def phonemes(self) -> list[tuple[str, int, int]]:
        """Return (phoneme, begin, end) in samples of all that is not silent.

        A stress mark's time and a length mark's belong to the vowel, and the length mark to its name.
        """
        ends = np.cumsum(self.durations)[:-1] * SAMPLES_PER_FRAME
        found: list[tuple[str, int, int]] = []
        begin = int(ends[0])
        for symbol, end in zip(self.symbols, ends[1:].tolist(), strict=True):
            if symbol == "ː" and found:
                found[-1] = (found[-1][0] + symbol, found[-1][1], end)
            elif symbol not in SILENT and symbol not in STRESS:
                found.append((symbol, begin, end))
            if symbol not in STRESS:
                begin = end
        return found


def by_espeak(said: AlignedSentence, vocab: dict[str, int]) -> Recording:
    """Return espeak's own recording of a sentence; `vocab` is the table that its ids are of."""
    symbol_of = {number: symbol for symbol, number in vocab.items()}
    symbols = "".join(symbol_of[number] for number in said.ids[1:-1].tolist())
    return Recording(said.text, list(VOICES)[said.voice], symbols, said.durations, said.audio)


def by_model(kokoro: Kokoro, reference: Recording, seed: int = 0) -> Recording:
    """Return the same sentence as the model says it, with its own durations, F0 and energy.

    Parameters
    ----------
    kokoro : Kokoro
    reference : Recording
        Whose text and voice are wanted.
    seed : int
        Seed of the source's noise.

    Raises
    ------
    InputError
        If the model reads other symbols, or its audio is not finite.
    """
    case = capture(kokoro, reference.text, voice_in(kokoro, reference.voice), seed=seed, g2p="espeak")
    if case.phonemes != reference.symbols:
        raise InputError(f"The model reads {case.phonemes!r} and espeak said {reference.symbols!r}; use one g2p.")
    durations, audio = case.tensors["durations"].numpy(), case.tensors["audio"].numpy()
    return replace(reference, durations=durations, audio=audio)


def misplaced(recordings: Iterable[Recording]) -> list[Recording]:
    """Return the control: the same audio shifted by half its length, so that no phoneme is at its place."""
    return [replace(one, audio=np.roll(one.audio, len(one.audio) // 2)) for one in recordings]


@dataclass(frozen=True)
class SentencePairs:
    """Held-out sentences in every voice, by espeak and by the model.

    Attributes
    ----------
    utterances : tuple of AlignedSentence
        espeak's, each sentence in every voice of `VOICES` one after the other.
    espeak, model : list of Recording
        The same sentences in the same order.
    seconds : tuple of float
        Wall time that the model took for each.
    """

    utterances: tuple[AlignedSentence, ...]
    espeak: list[Recording]
    model: list[Recording]
    seconds: tuple[float, ...]
    voices: ClassVar[tuple[str, ...]] = tuple(VOICES)
    sample_rate: ClassVar[int] = SAMPLE_RATE

    @property
    def table(self) -> list[dict[str, float]]:
        """The model's time, in one row."""
        spoken = [len(one.audio) / SAMPLE_RATE for one in self.model]
        row = {"utterances": len(self.model), "median per utterance (s)": float(np.median(self.seconds))}
        row |= {"median length (s)": float(np.median(spoken))}
        return [{**row, "computed per second of speech (s)": sum(self.seconds) / sum(spoken)}]


def recordings(kokoro: Kokoro, count: int, seed: int = 0) -> SentencePairs:
    """Record `count` held-out sentences in every voice, by espeak and by the model.

    Raises
    ------
    InputError
        As `by_model`, and if `count` is less than 1.
    """
    utterances = held_out_utterances(count)
    espeak = [by_espeak(one, kokoro.model.vocab) for one in utterances]
    model, seconds = [], []
    for one in espeak:
        start = perf_counter()
        model.append(by_model(kokoro, one, seed))
        seconds.append(perf_counter() - start)
    return SentencePairs(utterances, espeak, model, tuple(seconds))


def untrained(kokoro: Kokoro) -> str | None:
    """Return None if `kokoro` was trained on espeak's voices, or the reason why it cannot be compared with them."""
    missing = [name for name in VOICES if voice_in(kokoro, name) != name]
    return f"the weights '{kokoro.weights.label}' have no voice {', '.join(missing)}" if missing else None


def voice_in(kokoro: Kokoro, name: str) -> str:
    """Return `name` if the model has such a voice, or its default voice."""
    try:
        voices.load_voice(kokoro, name)
    except InputError:
        return kokoro.default_voice
    return name


def fitting_sentences(count: int, seed: int, vocab: dict[str, int]) -> list[Recording]:
    """Return `count` sentences by espeak, in every voice, that are not among the held-out ones.

    Every other is a list of random words of the dictionary, for the phonemes that the closed vocabulary hardly has.
    """
    spare = count + count // 5 + 2  # some cannot be aligned
    pairs = zip(islice(sentences(seed), spare), islice(word_lists(seed), spare), strict=True)
    texts = [punctuated(text, seed) for pair in pairs for text in pair]
    made = first_aligned(texts, lambda text, _: [utterance(text, voice, vocab) for voice in VOICES], count)
    return [by_espeak(said, vocab) for each in made for said in each]
