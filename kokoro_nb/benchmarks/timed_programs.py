"""The decoder on every runtime in turn, and text to audio as users run it: time, memory, and error against eager."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, arange

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Failure, Program, absence, loadable, quietly
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks import interleaved
from kokoro_nb.benchmarks.interleaved import BASE, LIMIT, ROUNDS, Made, TimedProgram
from kokoro_nb.benchmarks.memory import eager_speaker, of_artifact, of_speaking
from kokoro_nb.delivery.any_length import BOUNDED, HOST, takes_any_length
from kokoro_nb.delivery.export import SECONDS, TOKENS, Delivery, delivered
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.storage import bytes_in
from kokoro_nb.traces.statistics import compare

TEXT = "Hello world, this is a test of the exports."
# TVM with loops of ours, for speed, and as it is
BACKENDS = ("onnxruntime", "executorch-xnnpack", "executorch-portable", "aot-inductor", "tvm-scheduled", "tvm")
ONE_THREAD = "eager, 1 thread"


@dataclass(frozen=True)
class DecoderPrograms:
    """The decoder from `har` at one length, ready to be called.

    Attributes
    ----------
    length : float
        Seconds of audio.
    inputs : mapping
        Name -> tensor.
    artifacts, programs : mapping
        Backend, eager first -> what was made, and loaded.
    skipped : mapping
        Backend -> why it is not among them.
    """

    length: float
    inputs: Arrays = field(repr=False)
    artifacts: Mapping[str, Artifact] = field(repr=False)
    programs: Mapping[str, Program] = field(repr=False)
    skipped: Mapping[str, str]


@dataclass(frozen=True)
class DecoderTimes:
    """What was measured at one length.

    Attributes
    ----------
    decoder : DecoderPrograms
        What was timed.
    rows : tuple of TimedProgram
        Eager three times: as it is, on one thread, and a second time at the end of each round, a control.
    busy : bool
        Whether the machine was busy with something else, see `interleaved.busy`: the ratios are NaN.
    """

    decoder: DecoderPrograms
    rows: tuple[TimedProgram, ...]
    busy: bool = False


def frames_of(length: float) -> int:
    """Return the frames of so many seconds of audio.

    Raises
    ------
    InputError
        If it is less than two of them, or no number.
    """
    if not 2 / FRAMES_PER_SECOND <= length < math.inf:
        raise InputError(f"{length} s of audio cannot be timed; give {2 / FRAMES_PER_SECOND} s or more.")
    return round(length * FRAMES_PER_SECOND)


def decoder_inputs(kokoro: Kokoro, frames: int, seed: int = 0) -> dict[str, Tensor]:
    """Return the inputs of the decoder from `har`: so many frames of a sentence, repeated where it is shorter."""
    with quietly():
        case = capture(kokoro, TEXT, seed=seed, g2p="espeak")
    once = case.decoder_inputs(min(frames, case.frames))
    rates = {"asr": (2, 1), "f0": (1, 2), "n": (1, 2), "harmonic_noise": (1, SAMPLES_PER_FRAME)}  # axis, per frame
    places = {name: arange(frames * rate) % once[name].shape[axis] for name, (axis, rate) in rates.items()}
    inputs = {name: once[name].index_select(rates[name][0], place) for name, place in places.items()}
    with patched(kokoro.model, EXPORT_PATCHES):
        return stages.from_har_inputs(kokoro.model.decoder, {**inputs, "s": once["s"]})


def decoder_programs(
    kokoro: Kokoro, length: float, backends: Sequence[str] = BACKENDS, seed: int = 0
) -> DecoderPrograms:
    """Export the decoder from `har` to every backend and load it.

    It is cut at `har` because all runtimes can be given the same numbers from there on, so that what was timed can be
    shown to be right; what is cut off, the harmonic source, is a small part of the work.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    length : float
        Seconds of audio, 0.05 at least.
    backends : sequence of str
        Keys of `BACKENDS`. One that is not here, or does not export the decoder, is skipped.
    seed : int
        Of the source's noise.

    Raises
    ------
    InputError
        If the length is no good, or a backend is unknown.
    """
    inputs, module = decoder_inputs(kokoro, frames_of(length), seed), stages.FromHarStage(kokoro.model.decoder)
    with patched(kokoro.model, EXPORT_PATCHES):
        exported = export_program(module, inputs)
    artifacts = {BASE: loadable(backend(BASE).export(module, inputs), BASE)}

    def export(name: str) -> Artifact | Failure:
        return exported if isinstance(exported, Failure) else backend(name).export(exported, inputs)

    exports, skipped = made_of({name: name for name in backends}, export)
    artifacts |= exports
    with quietly():
        programs = {name: backend(each.backend).load(each) for name, each in artifacts.items()}
    return DecoderPrograms(length, inputs, artifacts, programs, skipped)


def made_of(
    backends: Mapping[str, str], make: Callable[[str], Made | Failure | str]
) -> tuple[dict[str, Made], dict[str, str]]:
    """Return what `make` makes by each name, if its backend can run here, and for what there is not the reason."""
    found = {name: absence(backend(each)) or make(name) for name, each in backends.items()}
    made = {name: one for name, one in found.items() if not isinstance(one, Failure | str)}
    return made, {name: str(one) for name, one in found.items() if isinstance(one, Failure | str)}


def decoder_times(
    kokoro: Kokoro,
    length: float,
    backends: Sequence[str] = BACKENDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    with_memory: bool = True,
) -> DecoderTimes:
    """Time the decoder from `har` on every backend in turn, eager first in each round.

    Parameters
    ----------
    rounds : int
        How often each is timed.
    limit : float
        Seconds for one program in all rounds together: see `interleaved.in_turn`.
    with_memory : bool
        Whether memory is measured too, in a process for each program.
    kokoro, length, backends, seed
        See `decoder_programs`, errors too.
    """
    decoder = decoder_programs(kokoro, length, backends, seed)
    programs, inputs = decoder.programs, decoder.inputs
    audio = {name: program.run(inputs)["output"] for name, program in programs.items()}

    def described(name: str) -> interleaved.Described:
        artifact = decoder.artifacts.get(name, decoder.artifacts[BASE])
        measured = with_memory and name in programs
        memory = of_artifact(artifact, inputs).as_dict() if measured else {}
        error = compare(audio[BASE], audio.get(name, audio[BASE])).of_peak
        return length, error, {"size (MB)": artifact.size / 1e6, **memory}

    return DecoderTimes(decoder, *interleaved.compared(_calls(programs, inputs), rounds, limit, described))


def _calls(programs: Mapping[str, Program], inputs: Arrays) -> dict[str, Callable[[], Any]]:
    """Return what is timed, in order: eager first, eager again last."""
    calls = {name: partial(program.run, inputs) for name, program in programs.items()}
    alone = interleaved.threads(1)(calls[BASE])
    return {BASE: calls[BASE], ONE_THREAD: alone, **calls, interleaved.AGAIN: calls[BASE]}


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


def text_to_audio(
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
        See `decoder_times`.
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
        request = requests[name + ANY_LENGTH] = Delivery(name, HOST, any_length=True, seconds=(max(room, *SECONDS),))
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
    memory = {name: of_speaking(text, folders.get(name), kokoro.source, seed).as_dict() for name in (BASE, *folders)}
    calls: dict[str, Callable[[], np.ndarray]] = {BASE: partial(eager_speaker(kokoro), text)}
    speakers = {name: _loaded(folder, text) for name, folder in folders.items()}
    calls |= {name: partial(speaker.speak, text) for name, (speaker, _) in speakers.items()}
    calls[interleaved.AGAIN] = calls[BASE]
    samples = {name: len(call()) for name, call in calls.items()}

    def described(name: str) -> interleaved.Described:
        length = samples[name] / SAMPLE_RATE
        figures = {"audio (s)": length, SAME_LENGTH: samples[name] == samples[BASE], **memory.get(name, {})}
        return length, None, {**figures, **(speakers[name][1] if name in speakers else {})}

    rows, is_busy = interleaved.compared(calls, rounds, limit, described)
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
