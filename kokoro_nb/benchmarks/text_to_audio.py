"""Text to audio as its users run it: the two exported stages against the model in PyTorch, in turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np

from kokoro_nb.benchmarks import interleaved
from kokoro_nb.benchmarks.decoders import TEXT, made_of
from kokoro_nb.benchmarks.interleaved import BASE, LIMIT, ROUNDS, TimedProgram
from kokoro_nb.benchmarks.memory import eager_speaker, of_speaking
from kokoro_nb.delivery.any_length import BOUNDED, HOST, takes_any_length
from kokoro_nb.delivery.export import SECONDS, TOKENS, Delivery, delivered
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.storage import bytes_in

SAME_LENGTH = "as long as eager"
FAST = ", fast"
ANY_LENGTH = ", any length"  # beside the bucket that is filled, which no text of an arbitrary length has


@dataclass(frozen=True)
class TextToAudioTimes:
    """What was measured at one length.

    Attributes
    ----------
    text : str
        What was spoken.
    rows : tuple of TimedProgram
        ``eager``, then the decoder's backends in a bucket of the length, and those that have one with a decoder of
        `ANY_LENGTH`; what comes before the decoder runs on `HOST`. Of the figures, `SAME_LENGTH` is whether the audio
        is as long as eager's; each draws noise of its own. Loading is timed with the runtime imported, and the files
        perhaps in the system's cache. The last one is the control, eager again.
    skipped : mapping
        Backend -> why it is not among them.
    folders : mapping
        Backend -> where the two stages are that were timed.
    busy : bool
        Whether the machine was busy with something else, see `interleaved.busy`: the ratios are NaN.
    """

    text: str
    rows: tuple[TimedProgram, ...]
    skipped: Mapping[str, str]
    folders: Mapping[str, Path] = field(default_factory=dict)
    busy: bool = False


def measure(
    kokoro: Kokoro,
    room: float,
    backends: Sequence[str],
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    tokens: int = TOKENS,
) -> TextToAudioTimes:
    """Time text to audio with the decoder on every backend in turn, eager first in each round.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    room : float
        Seconds of audio that the exported decoder has room for, and computes; as many words are spoken as fit.
    backends, rounds, limit
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
    requests = {name: Delivery(name, HOST, tokens=tokens, seconds=(room,)) for name in backends}
    for name in [name for name in backends if takes_any_length(name, HOST)]:
        request = Delivery(name, HOST, any_length=True, seconds=(max(room, *SECONDS),))
        requests[name + ANY_LENGTH] = request
        if name == BOUNDED:
            requests[name + ANY_LENGTH + FAST] = replace(request, fast=True)
    backends_of = {name: request.backend for name, request in requests.items()}
    folders, skipped = made_of(backends_of, lambda name: _made(kokoro, requests[name]))
    sized = [name for name in folders if ANY_LENGTH not in name]
    if not sized:
        return TextToAudioTimes("", (), skipped)
    text = longest(TwoStages(folders[sized[0]]))
    if not text:
        reason = f"In {room:g} s there is no room for a word."
        return TextToAudioTimes("", (), {**skipped, **dict.fromkeys(folders, reason)})
    # before the programs are loaded here, which together are gigabytes at full size
    every = (BASE, *folders)
    memory = {name: of_speaking(text, folders.get(name), kokoro.source, seed).as_dict() for name in every}
    calls: dict[str, Callable[[], np.ndarray]] = {BASE: partial(eager_speaker(kokoro), text)}
    speakers = {name: _loaded(folder, text) for name, folder in folders.items()}
    calls |= {name: partial(speaker.speak, text) for name, (speaker, _) in speakers.items()}
    calls[interleaved.AGAIN] = calls[BASE]
    times, elsewhere = interleaved.watched(partial(interleaved.in_turn, calls, rounds, limit))
    samples = {name: len(call()) for name, call in calls.items()}

    def described(name: str) -> interleaved.Described:
        length = samples[name] / SAMPLE_RATE
        figures = {"audio (s)": length, SAME_LENGTH: samples[name] == samples[BASE], **memory.get(name, {})}
        return length, None, {**figures, **(speakers[name][1] if name in speakers else {})}

    rows, is_busy = interleaved.compared(times, elsewhere, BASE, described)
    return TextToAudioTimes(text, rows, skipped, folders, is_busy)


def longest(speaker: TwoStages) -> str:
    """Return as many words of `TEXT`, repeated, as the largest bucket of a speaker that has some has room for."""
    table, spoken = speaker.table(), ""
    for word in cycle(TEXT.split()):
        longer = f"{spoken} {word}".strip()
        symbols = speaker.symbols(longer)
        if len(symbols) + 2 > speaker.contract.tokens:
            break
        if speaker.predict(symbols, table)["asr"].shape[-1] > speaker.largest:
            break
        spoken = longer
    return spoken


def _loaded(folder: Path, text: str) -> tuple[TwoStages, dict[str, float]]:
    """Return two stages that have spoken a text, and what is paid for them once: time until then, and disk."""
    speaker, loading = interleaved.timed(lambda: TwoStages(folder))
    _, speaking = interleaved.timed(lambda: speaker.speak(text))
    seconds = loading + speaking
    return speaker, {"load and first call (s)": seconds, "on disk (MB)": bytes_in(folder) / 1e6}


def _made(kokoro: Kokoro, request: Delivery) -> Path | str:
    """Return the folder of a delivery, or why there is none."""
    try:
        return delivered(kokoro, request)
    except InputError as error:
        return str(error)
