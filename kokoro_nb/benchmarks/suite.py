"""The suites of benchmarks by name, each measured into tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.benchmarks import DEFAULT_SUITES, SUITES, timed_programs
from kokoro_nb.benchmarks.interleaved import LIMIT, ROUNDS, timed
from kokoro_nb.benchmarks.memory import inspecting, of_call
from kokoro_nb.benchmarks.profiles import profiles
from kokoro_nb.delivery.clients.client_delivery import deliver_to
from kokoro_nb.delivery.export import TOKENS
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import inspect
from kokoro_nb.inspection.compared_program import of_onnx
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.models.kokoro import Kokoro, load_model
from kokoro_nb.models.voices import load_voice

INSPECTED = 64  # tokens
BUSY = "; the machine was busy with other work: no ratio is given"


@dataclass(frozen=True)
class BenchmarkTable:
    """One table of a suite: rows with units in their keys, and program -> why it is not among them."""

    caption: str
    rows: Sequence[Mapping[str, Any]]
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchmarkOptions:
    """What the suites are measured with.

    Attributes
    ----------
    weights : str
        See `models.kokoro.load_model`.
    lengths : sequence of float
        Seconds of audio; ``profiles`` takes the first.
    backends : sequence of str, optional
        Keys of `BACKENDS`; each suite has its own default.
    rounds, limit
        See `interleaved.in_turn`.
    seed : int
        Of random weights and of the source's noise.
    tokens : int
        Room of the first of the two stages.
    """

    weights: str = "mini"
    lengths: Sequence[float] = (1.0, 3.0)
    backends: Sequence[str] | None = None
    rounds: int = ROUNDS
    limit: float = LIMIT
    seed: int = 0
    tokens: int = TOKENS


def run(
    suites: Sequence[str] = DEFAULT_SUITES, options: BenchmarkOptions | None = None
) -> tuple[str, dict[str, list[BenchmarkTable]]]:
    """Measure some suites.

    Parameters
    ----------
    suites : sequence of str
        Of `SUITES`.
    options : BenchmarkOptions, optional

    Returns
    -------
    str, dict
        Label of the weights; suite -> its tables.

    Raises
    ------
    InputError
        If a suite, a backend, a length or the weights are unknown.
    """
    options = options or BenchmarkOptions()
    unknown = ", ".join(name for name in suites if name not in SUITES)
    if unknown or not suites or not options.lengths:
        raise InputError(f"There is no suite '{unknown}' to measure; give some of {', '.join(SUITES)}, and a length.")
    for length in options.lengths:
        timed_programs.frames_of(length)
    with quietly():
        kokoro = load_model(options.weights, options.seed)
    return kokoro.weights.label, {name: [*_RUNNERS[name](kokoro, options)] for name in suites}


def _decoders(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    for length in options.lengths:
        found = timed_programs.decoder_times(kokoro, length, **_timing(options))
        rows = [row.as_dict() for row in found.rows]
        about = f"Decoder from har, {length:g} s{BUSY if found.busy else ''}"
        yield BenchmarkTable(about, rows, found.decoder.skipped)


def _text_to_audio(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    for length in options.lengths:
        found = timed_programs.text_to_audio(kokoro, length, **_timing(options), tokens=options.tokens)
        about = f"Text to audio, {length:g} s{BUSY if found.busy else ''}"
        yield BenchmarkTable(about, [row.as_dict() for row in found.rows], found.skipped)


def _timing(options: BenchmarkOptions) -> dict[str, Any]:
    about = {"rounds": options.rounds, "seed": options.seed, "limit": options.limit}
    return {"backends": options.backends or timed_programs.BACKENDS, **about}


def _profiles(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    length, names = options.lengths[0], options.backends or timed_programs.BACKENDS
    decoder = timed_programs.decoder_programs(kokoro, length, names, options.seed)
    known, skipped = profiles(decoder.programs, decoder.inputs)
    rows = [{"program": name, **each.as_dict()} for name, each in known.items()]
    about = f"Share of the time in each family, decoder, {length:g} s"
    yield BenchmarkTable(about, rows, {**decoder.skipped, **skipped})


def of_inspection(kokoro: Kokoro, tokens: int, seed: int = 0) -> dict[str, Any]:
    """Inspect the whole model as it is delivered to kokoro-onnx, on so many token ids, both pads among them."""
    symbols = sorted({one for one in kokoro.model.vocab.values() if one})
    drawn = np.random.default_rng(seed).choice(symbols, tokens - 2)
    style = load_voice(kokoro, kokoro.default_voice)[tokens - 3].numpy()
    inputs = {"input_ids": np.array([[0, *drawn, 0]], np.int64), "style": style, "speed": np.ones(1, np.float32)}
    with TemporaryDirectory() as room:
        deliver_to(kokoro, "kokoro-onnx", Path(room) / "delivery")
        (file,) = (Path(room) / "delivery").glob("*.onnx")
        report, took = timed(lambda: inspect(file, inputs))
        program = of_onnx(read_onnx(file))
        _, once = timed(lambda: program.compute(inputs, lambda *_: None))
        row: dict[str, Any] = {"tokens": tokens, "file (MB)": file.stat().st_size / 1e6, "nodes": report.nodes}
        memory = of_call("onnxruntime", partial(inspecting, file, inputs), calls=1)
    row |= {"verdict": report.verdict, "time (s)": took, "x one evaluation in float64": took / once}
    return {**row, **memory.as_dict()}


def _inspection(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    whole = of_inspection(kokoro, INSPECTED, options.seed)
    yield BenchmarkTable("Inspection of the whole model, as kokoro-onnx gets it", [whole])


_RUNNERS: Mapping[str, Callable[[Kokoro, BenchmarkOptions], Iterator[BenchmarkTable]]] = dict(
    zip(SUITES, (_decoders, _text_to_audio, _profiles, _inspection), strict=True)
)
