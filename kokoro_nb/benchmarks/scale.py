"""How time grows: longer audio, more threads, more utterances at once, each against eager and against the floor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Program, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.ceilings import Ceilings, in_turn_with_ceilings, threads
from kokoro_nb.benchmarks.interleaved import FLOOR, LIMIT, RATIO, Spread, ratio, spread
from kokoro_nb.benchmarks.machine import cores
from kokoro_nb.benchmarks.subjects import (
    BASE,
    ROUNDS,
    decoder_inputs,
    eager_artifact,
    export_to,
    exported_decoder,
    frames_of,
    made_of,
)
from kokoro_nb.benchmarks.work import count
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.parity import compare

THREADS, BATCHES = (1, 2, 4, 8), (1, 2, 4, 8)
BACKENDS = ("onnxruntime",)
THREADED = ("onnxruntime", "aot-inductor")  # whose number of threads a program in this process can choose


@dataclass(frozen=True)
class Point:
    """What one call computes, and on how many threads.

    Attributes
    ----------
    length : float
        Seconds of audio of each utterance.
    batch : int
        Utterances in a call.
    threads : int
    """

    length: float
    batch: int
    threads: int

    def __str__(self) -> str:
        return f"{self.length:g} s, {self.batch} at once, {self.threads} threads"


@dataclass(frozen=True)
class ScaleRow:
    """One program at one point.

    Attributes
    ----------
    program : str
    point : Point
    seconds : Spread
        Of a call.
    ratio : Spread
        To eager at the same point.
    floor : float
        Times the floor of the same work on as many threads, measured in the same rounds: see `Work.floor`.
    error : float
        Largest difference from eager, of its peak.
    """

    program: str
    point: Point
    seconds: Spread
    ratio: Spread
    floor: float
    error: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        point, took = self.point, self.seconds.median
        row = {"program": self.program, "audio (s)": point.length, "at once": point.batch, "threads": point.threads}
        row |= {"run (s)": took, "audio per second (s)": point.length * point.batch / took, FLOOR: self.floor}
        row |= {RATIO + BASE: self.ratio.median, "from": self.ratio.low, "to": self.ratio.high}
        return {**row, "rounds": self.ratio.rounds, "error (of peak)": self.error}


def points(lengths: Sequence[float], numbers: Sequence[int], batches: Sequence[int]) -> tuple[Point, ...]:
    """Return three curves from one point, the first length on as many threads as there are: by length, threads, batch.

    Raises
    ------
    InputError
        If there is no length, or a number of threads or utterances is none.
    """
    if not lengths or any(number < 1 for number in (*numbers, *batches)):
        raise InputError(
            f"{[*lengths]} s, {[*numbers]} threads, {[*batches]} utterances are no curve; give a length, and 1 or more."
        )
    most = cores()
    curves = (
        *(Point(length, 1, most) for length in lengths),
        *(Point(lengths[0], 1, number) for number in numbers if number <= most),
        *(Point(lengths[0], batch, most) for batch in batches),
    )
    return tuple(dict.fromkeys(curves))


def measure(
    kokoro: Kokoro,
    lengths: Sequence[float],
    backends: Sequence[str] = BACKENDS,
    numbers: Sequence[int] = THREADS,
    batches: Sequence[int] = BATCHES,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    folder: str | Path | None = None,
) -> tuple[tuple[ScaleRow, ...], dict[str, str]]:
    """Time the decoder from `har` at every one of `points`, on every backend in turn, eager first in each round.

    Parameters
    ----------
    kokoro, backends, rounds, seed, limit, folder
        See `decoders.measure`.
    lengths, numbers, batches
        See `points`. Threads that this machine has no core for are skipped.

    Returns
    -------
    tuple of ScaleRow, dict
        And program, with the point where it is not among them -> why.

    Raises
    ------
    InputError
        See `points`; if a length is no good or a backend is unknown.
    """
    rows: list[ScaleRow] = []
    skipped = {f"{number} threads": f"This machine has {cores()} cores." for number in numbers if number > cores()}
    slow: dict[str, float] = {}
    for (length, batch), some in _by_inputs(points(lengths, numbers, batches)).items():
        once = decoder_inputs(kokoro, frames_of(length), seed)
        inputs = {name: tensor.repeat(batch, *[1] * (tensor.dim() - 1)) for name, tensor in once.items()}
        exported = exported_decoder(kokoro, inputs)
        with patched(kokoro.model, EXPORT_PATCHES):
            work = count(stages.FromHarStage(kokoro.model.decoder), inputs)
        made_here = eager_artifact(stages.FromHarStage(kokoro.model.decoder), inputs)
        for point in some:
            export = partial(_export, point=point, exported=exported, inputs=inputs, folder=folder)
            with threads(point.threads):
                made, absent = made_of(backends, export, slow, length * batch, limit)
                programs = {name: _loaded(one, point.threads) for name, one in {BASE: made_here, **made}.items()}
                times, ceilings = _times(programs, inputs, rounds, limit)
                audio = {name: program.run(inputs)["output"] for name, program in programs.items()}
            skipped |= {f"{name}, {point}": reason for name, reason in absent.items()}
            for name in programs:
                took, error = spread(times[name]), compare(audio[BASE], audio[name]).of_peak
                floor = took.median / work.floor(ceilings)
                rows.append(ScaleRow(name, point, took, ratio(times[name], times[BASE]), floor, error))
                if point.threads == cores():
                    slow[name] = took.median / (length * batch)
    return tuple(rows), skipped


def _by_inputs(some: Iterable[Point]) -> dict[tuple[float, int], list[Point]]:
    """Return the points by length and batch: those that differ in threads alone compute one program."""
    found: dict[tuple[float, int], list[Point]] = {}
    for point in some:
        found.setdefault((point.length, point.batch), []).append(point)
    return found


def _export(name: str, point: Point, exported: Exported, inputs: Arrays, folder: str | Path | None) -> Artifact | str:
    if point.threads < cores() and name not in THREADED:
        return "It computes on as many threads as its process has."
    return export_to(name, exported, inputs, folder)


def _loaded(artifact: Artifact, number: int) -> Program:
    runtime: Any = backend(artifact.backend)
    with quietly():
        return (replace(runtime, threads=number) if hasattr(runtime, "threads") else runtime).load(artifact)


def _times(
    programs: Mapping[str, Program], inputs: Arrays, rounds: int, limit: float
) -> tuple[dict[str, tuple[float, ...]], Ceilings]:
    calls = {name: partial(program.run, inputs) for name, program in programs.items()}
    return in_turn_with_ceilings(calls, rounds, limit)
