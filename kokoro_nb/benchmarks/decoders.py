"""The decoder on every runtime in turn: time, memory, and error against eager PyTorch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Program, quietly
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.ceilings import Ceilings, in_turn_with_ceilings, threads
from kokoro_nb.benchmarks.interleaved import APART, FLOOR, LIMIT, TimedProgram, apart, ratio, spread, without_ratios
from kokoro_nb.benchmarks.memory import of_artifact
from kokoro_nb.benchmarks.subjects import (
    BASE,
    DECODER_BACKENDS,
    ROUNDS,
    decoder_inputs,
    eager_artifact,
    export_to,
    exported_decoder,
    frames_of,
    made_of,
)
from kokoro_nb.benchmarks.work import Work, count
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.parity import compare

ONE_THREAD, PATCHED, AGAIN = "eager, 1 thread", "eager, patched", "eager, again"


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
        Backend, or one of eager's two: as it is, and with the patches that exports need -> what was made, and loaded.
    skipped : mapping
        Backend -> why it is not among them.
    work : Work
        Of the program that is exported.
    """

    length: float
    inputs: Arrays = field(repr=False)
    artifacts: Mapping[str, Artifact] = field(repr=False)
    programs: Mapping[str, Program] = field(repr=False)
    skipped: Mapping[str, str]
    work: Work = field(repr=False)


@dataclass(frozen=True)
class DecoderTimes:
    """What was measured at one length.

    Attributes
    ----------
    decoder : DecoderPrograms
        What was timed.
    rows : tuple of TimedProgram
        Eager four times: as it is, on one thread, with the patches that exports need, and a second time at the end of
        each round, a control.
    ceilings : Ceilings
        Measured in the same rounds.
    """

    decoder: DecoderPrograms
    rows: tuple[TimedProgram, ...]
    ceilings: Ceilings

    @property
    def control(self) -> float:
        """How far eager is from as fast as itself: see `interleaved.apart`."""
        return apart(self.rows[-1].ratio)

    @property
    def busy(self) -> bool:
        """Whether the machine was busy with something else, and the ratios are NaN."""
        return self.control > APART

    @property
    def floors(self) -> dict[str, float]:
        """Seconds that no program beats, ``least``, and none that joins no operators, ``separate``: see `Work`."""
        work = self.decoder.work
        return {"least": work.floor(self.ceilings), "separate": work.separate_floor(self.ceilings)}

    def floor_rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table: each program's time as a multiple of both floors."""
        least, separate = self.floors.values()
        times = {row.program: row.seconds.median for row in self.rows}
        return [
            {"program": name, "run (s)": each, FLOOR: each / least, "x floor, operators apart": each / separate}
            for name, each in times.items()
        ]

    @property
    def floor_caption(self) -> str:
        """What the floors are made of: the work, and what the machine can do at best."""
        work, roofs = self.decoder.work, self.ceilings
        text = f"Decoder from har, {self.decoder.length:g} s: {work.flops / 1e9:.3g} GFLOP, "
        text += f"{work.least / 1e6:.3g} MB at least, {work.moved / 1e6:.3g} MB operator by operator; "
        return text + f"{roofs.gflops:.3g} GFLOP/s and {roofs.gbytes:.3g} GB/s on {roofs.threads} threads"


def decoder_programs(
    kokoro: Kokoro,
    length: float,
    backends: Sequence[str] = DECODER_BACKENDS,
    seed: int = 0,
    limit: float = LIMIT,
    slow: Mapping[str, float] | None = None,
    folder: str | Path | None = None,
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
    limit : float
        Seconds for one program in all rounds together: see `interleaved.in_turn`.
    slow : mapping, optional
        Program -> seconds of computing for each second of audio, as far as it is known: one whose single call would
        take longer than `limit` is skipped.
    folder : path, optional
        Where artefacts are saved.

    Raises
    ------
    InputError
        If the length is no good, or a backend is unknown.
    """
    inputs, module = decoder_inputs(kokoro, frames_of(length), seed), stages.FromHarStage(kokoro.model.decoder)
    exported = exported_decoder(kokoro, inputs)
    with patched(kokoro.model, EXPORT_PATCHES):
        work = count(module, inputs)
    artifacts = {BASE: eager_artifact(module, inputs), PATCHED: eager_artifact(exported, inputs)}
    export = partial(export_to, exported=exported, inputs=inputs, folder=folder)
    exports, skipped = made_of(backends, export, slow or {}, length, limit)
    artifacts |= exports
    with quietly():
        programs = {name: backend(each.backend).load(each) for name, each in artifacts.items()}
    return DecoderPrograms(length, inputs, artifacts, programs, skipped, work)


def measure(
    kokoro: Kokoro,
    length: float,
    backends: Sequence[str] = DECODER_BACKENDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    with_memory: bool = True,
    slow: Mapping[str, float] | None = None,
    folder: str | Path | None = None,
) -> DecoderTimes:
    """Time the decoder from `har` on every backend in turn, eager first in each round.

    Parameters
    ----------
    rounds : int
        How often each is timed.
    with_memory : bool
        Whether memory is measured too, in a process for each program.
    kokoro, length, backends, seed, limit, slow, folder
        See `decoder_programs`, errors too.
    """
    decoder = decoder_programs(kokoro, length, backends, seed, limit, slow, folder)
    programs, inputs = decoder.programs, decoder.inputs
    times, ceilings = in_turn_with_ceilings(_calls(programs, inputs), rounds, limit)
    audio, rows = {name: program.run(inputs)["output"] for name, program in programs.items()}, []
    for name in times:
        one = name if name in programs else BASE
        figures: dict[str, Any] = {"size (MB)": decoder.artifacts[one].size / 1e6}
        if with_memory and name in programs:
            figures |= of_artifact(decoder.artifacts[one], inputs).as_dict()
        compared = ratio(times[name], times[BASE]), compare(audio[BASE], audio[one]).of_peak
        rows.append(TimedProgram(name, length, spread(times[name]), *compared, figures=figures))
    found = DecoderTimes(decoder, tuple(rows), ceilings)
    return replace(found, rows=without_ratios(rows)) if found.busy else found


def _calls(programs: Mapping[str, Program], inputs: Arrays) -> dict[str, Callable[[], Any]]:
    """Return what is timed, in order: eager first, eager again last."""

    def on_one_thread() -> None:
        with threads(1):
            programs[BASE].run(inputs)

    calls = {name: partial(program.run, inputs) for name, program in programs.items()}
    return {BASE: calls[BASE], ONE_THREAD: on_one_thread, **calls, AGAIN: calls[BASE]}
