"""Text to audio as its users run it: the two exported stages against the model in PyTorch, in turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import absence
from kokoro_nb.benchmarks.decoders import BASE, ROUNDS, TEXT, made_of
from kokoro_nb.benchmarks.interleaved import LIMIT, Spread, in_turn, ratio, spread
from kokoro_nb.benchmarks.memory import Memory, of_speaking
from kokoro_nb.delivery.export import TOKENS, Delivery, delivered
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.models import speech, voices
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.kokoro import Kokoro

HOST = "onnxruntime"  # of what comes before the decoder


@dataclass(frozen=True)
class Spoken:
    """One way to speak, at one length.

    Attributes
    ----------
    program : str
        ``eager``, or the decoder's backend; what comes before it runs on `HOST`.
    room : float
        Seconds of audio that the exported decoder has room for; it computes all of them.
    length : float
        Seconds of audio that were spoken.
    seconds : Spread
        From text to audio: median and quartiles.
    ratio : Spread
        To eager in the same round.
    same_length : bool
        Whether the audio is as long as eager's. Its samples cannot be compared: each draws noise of its own.
    memory : Memory or None
        In a process of its own, where it was measured.
    """

    program: str
    room: float
    length: float
    seconds: Spread
    ratio: Spread
    same_length: bool
    memory: Memory | None = None

    @property
    def real_time(self) -> float:
        """Seconds of computing for each second of audio."""
        return self.seconds.median / self.length

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        told = {"program": self.program, "room": self.room, "length": self.length, "seconds": self.seconds.as_dict()}
        told |= {"real_time_factor": self.real_time, "ratio": self.ratio.as_dict(), "same_length": self.same_length}
        return told if self.memory is None else {**told, "memory": self.memory.as_dict()}


@dataclass(frozen=True)
class Speaking:
    """What was measured at one length: see `decoders.Decoders`."""

    text: str
    rows: tuple[Spoken, ...]
    skipped: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {"text": self.text, "rows": [row.as_dict() for row in self.rows], "skipped": dict(self.skipped)}


def measure(
    kokoro: Kokoro,
    room: float,
    backends: Sequence[str],
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    with_memory: bool = True,
    slow: Mapping[str, float] | None = None,
    tokens: int = TOKENS,
) -> Speaking:
    """Time text to audio with the decoder on every backend in turn, eager first in each round.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    room : float
        Seconds of audio that the exported decoder has room for. As many words are spoken as fit.
    backends, rounds, limit, with_memory, slow
        See `decoders.measure`.
    seed : int
        That the weights were made with, if they were.
    tokens : int
        Room of the first stage.

    Raises
    ------
    InputError
        If a backend is unknown.
    """
    folders, skipped = made_of(backends, lambda name: _made(name, kokoro, room, tokens), slow or {}, room, limit)
    if not folders:
        return Speaking("", (), skipped)
    speakers = {name: TwoStages(folder) for name, folder in folders.items()}
    text = longest(next(iter(speakers.values())))
    if not text:
        return Speaking("", (), {**skipped, **dict.fromkeys(folders, f"In {room:g} s there is no room for a word.")})
    calls: dict[str, Callable[[], np.ndarray]] = {BASE: partial(eager_speaker(kokoro), text)}
    calls |= {name: partial(speaker.speak, text) for name, speaker in speakers.items()}
    times = in_turn(calls, rounds, limit)
    samples = {name: len(call()) for name, call in calls.items()}
    rows = []
    for name in calls:
        weights = kokoro.weights.name
        grown = of_speaking(text, folders.get(name), weights, seed) if with_memory else None
        against = ratio(times[name], times[BASE])
        same = samples[name] == samples[BASE]
        rows.append(Spoken(name, room, samples[name] / SAMPLE_RATE, spread(times[name]), against, same, grown))
    return Speaking(text, tuple(rows), skipped)


def eager_speaker(kokoro: Kokoro) -> Callable[[str], np.ndarray]:
    """Return what speaks a text with the model as it is: text -> (samples,) float32, 24 kHz."""
    table = voices.load_voice(kokoro)

    def speak(text: str) -> np.ndarray:
        phonemes = speech.encode(kokoro.model.vocab, text, "espeak")
        audio, _ = kokoro.model.forward_with_tokens(phonemes.ids, voices.style(table, phonemes.symbols), 1.0)
        return audio.numpy()

    return speak


def longest(speaker: TwoStages) -> str:
    """Return as many words of `TEXT`, said again and again, as the largest bucket has room for."""
    table, words = speaker.table(), TEXT.split()
    some = [words[place % len(words)] for place in range(speaker.contract.tokens)]

    def fits(number: int) -> bool:
        symbols = speaker.symbols(" ".join(some[:number]))
        room = len(symbols) + 2 <= speaker.contract.tokens
        return room and speaker.predict(symbols, table)["asr"].shape[-1] <= speaker.largest

    least, most = 0, len(some)  # `least` fits
    while least + 1 < most:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return " ".join(some[:least])


def _made(name: str, kokoro: Kokoro, room: float, tokens: int) -> Path | str:
    """Return the folder of a delivery, or why there is none."""
    absent = absence(backend(name))
    if absent:
        return absent
    try:
        return delivered(kokoro, Delivery(name, HOST, tokens=tokens, seconds=(room,)))
    except InputError as error:
        return str(error)
