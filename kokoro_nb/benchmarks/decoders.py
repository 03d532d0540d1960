"""The decoder on every runtime in turn: time, memory, and error against eager PyTorch."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from torch import Tensor, cat

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Failure, Program, absence, loadable, quietly
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks import interleaved
from kokoro_nb.benchmarks.interleaved import BASE, LIMIT, ROUNDS, TimedProgram
from kokoro_nb.benchmarks.memory import of_artifact
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLES_PER_FRAME
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.statistics import compare

TEXT = "Hello world, this is a test of the exports."
BACKENDS = (
    *("onnxruntime", "executorch-xnnpack", "executorch-portable", "aot-inductor"),
    *("tvm-scheduled", "tvm"),  # TVM with loops of ours, for speed, and as it is
)
ONE_THREAD = "eager, 1 thread"
Made = TypeVar("Made")


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
    inputs = {name: _repeated(once[name], axis, frames * rate) for name, (axis, rate) in rates.items()}
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


def measure(
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
    times, elsewhere = interleaved.watched(partial(interleaved.in_turn, _calls(programs, inputs), rounds, limit))
    audio = {name: program.run(inputs)["output"] for name, program in programs.items()}

    def described(name: str) -> interleaved.Described:
        artifact = decoder.artifacts.get(name, decoder.artifacts[BASE])
        measured = with_memory and name in programs
        memory = of_artifact(artifact, inputs).as_dict() if measured else {}
        error = compare(audio[BASE], audio.get(name, audio[BASE])).of_peak
        return length, error, {"size (MB)": artifact.size / 1e6, **memory}

    rows, is_busy = interleaved.compared(times, elsewhere, BASE, described)
    return DecoderTimes(decoder, rows, is_busy)


def _calls(programs: Mapping[str, Program], inputs: Arrays) -> dict[str, Callable[[], Any]]:
    """Return what is timed, in order: eager first, eager again last."""

    def on_one_thread() -> None:
        with interleaved.threads(1):
            programs[BASE].run(inputs)

    calls = {name: partial(program.run, inputs) for name, program in programs.items()}
    return {BASE: calls[BASE], ONE_THREAD: on_one_thread, **calls, interleaved.AGAIN: calls[BASE]}


def _repeated(tensor: Tensor, axis: int, size: int) -> Tensor:
    times = math.ceil(size / tensor.shape[axis])
    return cat([tensor] * times, axis).narrow(axis, 0, size).contiguous()
