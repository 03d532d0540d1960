"""The decoder as its users run it, on every runtime in turn: how long, how much memory, and whether it is right."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, cat

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Failure, Program, absence, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.ceilings import Ceilings, ceiling_calls, threads
from kokoro_nb.benchmarks.interleaved import LIMIT, Spread, in_turn, ratio, spread
from kokoro_nb.benchmarks.memory import Memory, of_artifact
from kokoro_nb.benchmarks.work import Work, count
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLES_PER_FRAME
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.parity import compare

TEXT = "Hello world, this is a test of the exports."
BASE, ONE_THREAD, PATCHED, AGAIN = "eager", "eager, 1 thread", "eager, patched", "eager, again"
BACKENDS = ("onnxruntime", "executorch-xnnpack", "executorch-portable", "aot-inductor", "tvm")
ROUNDS = 7
Made = TypeVar("Made")


@dataclass(frozen=True)
class Timed:
    """One program at one length.

    Attributes
    ----------
    program : str
        Key of `BACKENDS`, or one of eager's four: as it is, on one thread, with the patches that exports need, and a
        second time at the end of each round, a control.
    length : float
        Seconds of audio.
    seconds : Spread
        Of a call: median and quartiles.
    ratio : Spread
        To eager in the same round.
    error : float
        Largest difference from eager, of its peak.
    size : int
        Bytes of the artefact; 0 for eager.
    floor : float
        `seconds.median` over that of `Work.floor`.
    memory : Memory or None
        In a process of its own, where it was measured.
    """

    program: str
    length: float
    seconds: Spread
    ratio: Spread
    error: float
    size: int
    floor: float
    memory: Memory | None = None

    @property
    def real_time(self) -> float:
        """Seconds of computing for each second of audio."""
        return self.seconds.median / self.length

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        told = {"program": self.program, "length": self.length, "seconds": self.seconds.as_dict()}
        told |= {"real_time_factor": self.real_time, "ratio": self.ratio.as_dict(), "error": self.error}
        told |= {"size": self.size, "over_floor": self.floor}
        return told if self.memory is None else {**told, "memory": self.memory.as_dict()}


@dataclass(frozen=True)
class Decoders:
    """What was measured at one length.

    Attributes
    ----------
    label : str
        Of the weights.
    length : float
        Seconds of audio.
    rows : tuple of Timed
    skipped : dict
        Program -> why it is not among them.
    work : Work
        Of the program that is exported.
    ceilings : Ceilings
        Measured in the same rounds.
    programs : dict
        What was timed, loaded; with `inputs` it can be run again.
    inputs : mapping
    """

    label: str
    length: float
    rows: tuple[Timed, ...]
    skipped: Mapping[str, str]
    work: Work
    ceilings: Ceilings
    programs: Mapping[str, Program] = field(repr=False)
    inputs: Arrays = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return all but the programs, ready for JSON."""
        floors = {"least": self.work.floor(self.ceilings), "separate": self.work.separate_floor(self.ceilings)}
        told = {"length": self.length, "rows": [row.as_dict() for row in self.rows], "skipped": dict(self.skipped)}
        return {**told, "work": self.work.as_dict(), "ceilings": self.ceilings.as_dict(), "floor_seconds": floors}


def measure(
    kokoro: Kokoro,
    length: float,
    backends: Sequence[str] = BACKENDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    with_memory: bool = True,
    slow: Mapping[str, float] | None = None,
    folder: str | Path | None = None,
) -> Decoders:
    """Time the decoder from `har` on every backend in turn, eager first in each round.

    It is cut at `har` because all runtimes can be held to the same numbers from there on, so that what was timed can be
    shown to be right; what is cut off, the harmonic source, is a small part of the work.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    length : float
        Seconds of audio, 0.05 at least.
    backends : sequence of str
        Keys of `BACKENDS`. One that is not here, or does not export the decoder, is among what was skipped.
    rounds : int
        How often each is timed.
    seed : int
        Of the source's noise.
    limit : float
        Seconds for one program in all rounds together: see `timing.in_turn`.
    with_memory : bool
        Whether memory is measured too, in a process for each program.
    slow : mapping, optional
        Program -> seconds of computing for each second of audio, as far as it is known: one whose single call would
        take longer than `limit` is skipped.
    folder : path, optional
        Where artefacts are kept.

    Raises
    ------
    InputError
        If the length is no good, or a backend is unknown.
    """
    inputs, artifacts, work = _subject(kokoro, frames_of(length), seed)
    exported = artifacts[PATCHED].program.source
    export = partial(export_to, exported=exported, inputs=inputs, folder=folder)
    exports, skipped = made_of(backends, export, slow or {}, length, limit)
    artifacts |= exports
    with quietly():
        programs = {name: backend(each.backend).load(each) for name, each in artifacts.items()}
    own, read = ceiling_calls()
    times = in_turn({**_calls(programs, inputs), **own}, rounds, limit)
    roofs, rows = read(times), []
    audio = {name: program.run(inputs)["output"] for name, program in programs.items()}
    for name in [name for name in times if name not in own]:
        one = name if name in programs else BASE
        took = spread(times[name])
        error = compare(audio[BASE], audio[one]).of_peak
        over, size = took.median / work.floor(roofs), artifacts[one].size
        grown = of_artifact(artifacts[one], inputs) if with_memory and name in programs else None
        rows.append(Timed(name, length, took, ratio(times[name], times[BASE]), error, size, over, grown))
    return Decoders(kokoro.weights.label, length, tuple(rows), skipped, work, roofs, programs, inputs)


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


def decoder_inputs(kokoro: Kokoro, frames: int, seed: int = 0, text: str = TEXT) -> dict[str, Tensor]:
    """Return what the decoder from `har` is given: so many frames of a sentence, said again where it is shorter."""
    return at_har(kokoro, whole_inputs(kokoro, frames, seed, text))


def at_har(kokoro: Kokoro, inputs: Arrays) -> dict[str, Tensor]:
    """Return what the decoder from `har` is given where that with its source is given `inputs`."""
    with patched(kokoro.model, EXPORT_PATCHES):
        return stages.from_har_inputs(kokoro.model.decoder, inputs)


def whole_inputs(kokoro: Kokoro, frames: int, seed: int = 0, text: str = TEXT) -> dict[str, Tensor]:
    """Return what the decoder with its source is given, see `decoder_inputs`."""
    with quietly():
        case = capture(kokoro, text, seed=seed, g2p="espeak")
    once = case.decoder_inputs(min(frames, case.frames))
    rates = {"asr": (2, 1), "f0": (1, 2), "n": (1, 2), "harmonic_noise": (1, SAMPLES_PER_FRAME)}  # axis, per frame
    given = {name: _repeated(once[name], axis, frames * rate) for name, (axis, rate) in rates.items()}
    return {**given, "s": once["s"]}


def _repeated(tensor: Tensor, axis: int, size: int) -> Tensor:
    times = math.ceil(size / tensor.shape[axis])
    return cat([tensor] * times, axis).narrow(axis, 0, size).contiguous()


def exported_decoder(
    kokoro: Kokoro, inputs: Arrays, stage: type[stages.FromHarStage] = stages.FromHarStage
) -> Exported:
    """Return the decoder from `har`, or its padded version, patched for export.

    Raises
    ------
    InputError
        If it cannot be exported.
    """
    with patched(kokoro.model, EXPORT_PATCHES):
        exported = export_program(stage(kokoro.model.decoder), inputs)
    if isinstance(exported, Failure):
        raise InputError(f"The decoder cannot be exported: {exported}")
    return exported


def _subject(kokoro: Kokoro, frames: int, seed: int) -> tuple[Arrays, dict[str, Artifact], Work]:
    """Return the decoder's inputs, eager's two programs, and the work in what is exported."""
    inputs, module = decoder_inputs(kokoro, frames, seed), stages.FromHarStage(kokoro.model.decoder)
    exported = exported_decoder(kokoro, inputs)
    with patched(kokoro.model, EXPORT_PATCHES):
        work = count(module, inputs)
    return inputs, {BASE: eager_artifact(module, inputs), PATCHED: eager_artifact(exported, inputs)}, work


def eager_artifact(module: Any, inputs: Arrays) -> Artifact:
    """Return a module or an exported program as eager PyTorch runs it."""
    made = backend("eager").export(module, inputs)
    if isinstance(made, Failure):
        raise InputError(f"The decoder cannot be timed: {made}")
    return made


def export_to(name: str, exported: Any, inputs: Arrays, folder: str | Path | None) -> Artifact | str:
    """Return what a backend exported, or why there is nothing."""
    runtime = backend(name)
    absent = absence(runtime)
    if absent:
        return absent
    made = runtime.export(exported, inputs, folder)
    return str(made) if isinstance(made, Failure) else made


def made_of(
    backends: Sequence[str], make: Callable[[str], Made | str], slow: Mapping[str, float], length: float, limit: float
) -> tuple[dict[str, Made], dict[str, str]]:
    """Return what `make` makes for each backend, and the reason for each for which there is nothing to time.

    One whose single call would take longer than `limit`, by what `slow` tells for a second of audio, is not made.
    """
    made, skipped = {}, {}
    for name in backends:
        expected = slow.get(name, 0.0) * length
        late = f"One call would take some {expected:.0f} s; raise the limit to wait for it."
        one = late if expected > limit else make(name)
        if isinstance(one, str):
            skipped[name] = one
        else:
            made[name] = one
    return made, skipped


def _calls(programs: Mapping[str, Program], inputs: Arrays) -> dict[str, Callable[[], Any]]:
    """Return what is timed, in order: eager first, eager again last."""

    def on_one_thread() -> None:
        with threads(1):
            programs[BASE].run(inputs)

    calls = {name: lambda program=program: program.run(inputs) for name, program in programs.items()}
    return {BASE: calls.pop(BASE), ONE_THREAD: on_one_thread, **calls, AGAIN: lambda: programs[BASE].run(inputs)}
