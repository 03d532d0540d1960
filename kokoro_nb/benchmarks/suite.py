"""The suites of benchmarks by name, each measured into tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.benchmarks import (
    DEFAULT_SUITES,
    SUITES,
    decoders,
    graph_patches,
    inspection_cost,
    omissions,
    quantisation,
    scale,
    sessions,
    streaming,
)
from kokoro_nb.benchmarks import text_to_audio as speech
from kokoro_nb.benchmarks.interleaved import LIMIT
from kokoro_nb.benchmarks.localisation_cost import measure as localisation_cost
from kokoro_nb.benchmarks.profiles import Profile, profile
from kokoro_nb.benchmarks.recorded_times import TESTS, notebook_times, test_times
from kokoro_nb.benchmarks.startup import MODULES, cached_exports, imports
from kokoro_nb.benchmarks.subjects import DECODER_BACKENDS, ROUNDS, decoder_inputs, exported_decoder, frames_of
from kokoro_nb.benchmarks.trace_overhead import trace_cost
from kokoro_nb.benchmarks.word_errors import COUNT
from kokoro_nb.benchmarks.word_errors import measure as word_errors
from kokoro_nb.delivery.export import TOKENS
from kokoro_nb.errors import InputError
from kokoro_nb.models.kokoro import Kokoro, load_model

TRACED = ("eager", "onnxruntime", "coreml-reference-float32")  # backends that show their operators
QUICK = ("onnxruntime",)  # to compile
SHOWN = 10  # layers
INSPECTED = 64  # tokens
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class BenchmarkTable:
    """One table of a suite: rows with units in their keys, and program -> why it is not among them."""

    caption: str
    rows: Rows
    skipped: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return {"caption": self.caption, "rows": list(self.rows), "skipped": dict(self.skipped)}


@dataclass(frozen=True)
class BenchmarkOptions:
    """What the suites are measured with.

    Attributes
    ----------
    weights : str
        See `models.kokoro.load_model`.
    lengths : sequence of float
        Seconds of audio; all suites but ``decoders``, ``text-to-audio`` and ``scale`` take the first.
    backends : sequence of str, optional
        Keys of `BACKENDS`; each suite has its own default.
    rounds, limit
        See `interleaved.in_turn`.
    seed : int
        Of random weights and of the source's noise.
    phrases : int
        How many are transcribed in each precision.
    tokens : int
        Room of the first of the two stages.
    sessions : sequence of int
        How many at once.
    threads, batches : sequence of int
        Of ``scale``: see its `points`.
    modules : sequence of str
        Whose imports are timed.
    folder : path, optional
        Where the decoders' artefacts are saved.
    recorded : path
        Where runs of notebooks and tests have left their records: the project's ``outputs``.
    """

    weights: str = "mini"
    lengths: Sequence[float] = (1.0, 3.0)
    backends: Sequence[str] | None = None
    rounds: int = ROUNDS
    limit: float = LIMIT
    seed: int = 0
    phrases: int = COUNT
    tokens: int = TOKENS
    sessions: Sequence[int] = sessions.COUNTS
    threads: Sequence[int] = scale.THREADS
    batches: Sequence[int] = scale.BATCHES
    modules: Sequence[str] = MODULES
    folder: str | Path | None = field(default=None, compare=False)
    recorded: str | Path = field(default="outputs", compare=False)


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
        frames_of(length)
    with quietly():
        kokoro = load_model(options.weights, options.seed)
    return kokoro.weights.label, {name: [*_RUNNERS[name](kokoro, options)] for name in suites}


def _decoders(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    slow: dict[str, float] = {}
    for length in options.lengths:
        found = decoders.measure(kokoro, length, **_timing(options), slow=slow, folder=options.folder)
        slow |= {row.program: row.real_time for row in found.rows}
        rows = [row.as_dict() for row in found.rows]
        yield BenchmarkTable(f"Decoder from har, {length:g} s", rows, found.decoder.skipped)
        yield BenchmarkTable(found.floor_caption, found.floor_rows())
        yield BenchmarkTable(f"Work of the decoder from har, {length:g} s", found.decoder.work.families())


def _text_to_audio(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    slow: dict[str, float] = {}
    for length in options.lengths:
        found = speech.measure(kokoro, length, **_timing(options), slow=slow, tokens=options.tokens)
        slow |= {row.program: row.real_time for row in found.rows}
        yield BenchmarkTable(f"Text to audio, {length:g} s", [row.as_dict() for row in found.rows], found.skipped)


def _timing(options: BenchmarkOptions, backends: Sequence[str] = DECODER_BACKENDS) -> dict[str, Any]:
    about = {"rounds": options.rounds, "seed": options.seed, "limit": options.limit}
    return {"backends": options.backends or backends, **about}


def _profiles(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    length, names = options.lengths[0], options.backends or DECODER_BACKENDS
    decoder = decoders.decoder_programs(kokoro, length, names, options.seed, folder=options.folder)
    found = {name: profile(program, decoder.inputs) for name, program in decoder.programs.items()}
    rows = [{"program": name, **each.as_dict()} for name, each in found.items() if isinstance(each, Profile)]
    skipped = {**decoder.skipped, **{name: each for name, each in found.items() if isinstance(each, str)}}
    yield BenchmarkTable(f"Share of the time in each family, decoder, {length:g} s", rows, skipped)


def _graph_patches(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    length, timing = options.lengths[0], _timing(options, graph_patches.BACKENDS)
    rows, skipped = graph_patches.measure(kokoro, length, **timing, folder=options.folder)
    yield BenchmarkTable(
        f"Decoder from har, {length:g} s, with other patches", [row.as_dict() for row in rows], skipped
    )


def _omissions(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    length = options.lengths[0]
    rows, skipped = omissions.measure(kokoro, length, **_timing(options, QUICK), folder=options.folder)
    yield BenchmarkTable(f"Decoder, {length:g} s, with parts left out", [row.as_dict() for row in rows], skipped)


def _streaming(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    length, timing = options.lengths[0], _timing(options, streaming.BACKENDS)
    statistics = streaming.statistics_of(kokoro, options.seed)
    rows, skipped = streaming.measure(kokoro, length, statistics, **timing, folder=options.folder)
    yield BenchmarkTable(f"A first part of {length:g} s, decoder from har", [row.as_dict() for row in rows], skipped)
    joined = streaming.joins(kokoro, length, statistics, options.seed)
    yield BenchmarkTable(f"{length:g} s part by part, norms fixed, eager", joined)


def _quantisation(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    length, about = options.lengths[0], (quantisation.PRECISIONS, options.rounds, options.seed, options.limit)
    rows, layers = quantisation.measure(kokoro, length, *about, options.folder)
    yield BenchmarkTable(f"Decoder from har, {length:g} s, in other precisions", [row.as_dict() for row in rows])
    worst = [layer.as_dict() for layer in layers[: -SHOWN - 1 : -1]]
    yield BenchmarkTable("Convolutions that int8 harms most", worst)


def _word_error_rate(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    rows = word_errors(kokoro, count=options.phrases, seed=options.seed, folder=options.folder)
    yield BenchmarkTable("Word error rate by Whisper in other precisions, decoder from har", rows)


def _trace_overhead(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    inputs = decoder_inputs(kokoro, frames_of(options.lengths[0]), options.seed)
    exported = exported_decoder(kokoro, inputs)
    rows = trace_cost(exported, inputs, options.backends or TRACED, options.rounds, options.folder)
    yield BenchmarkTable("Overhead of a trace of every operator", rows)


def _sessions(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    length, names = options.lengths[0], options.backends or sessions.BACKENDS
    about = options.sessions, options.rounds, options.seed, options.folder
    rows, skipped = sessions.measure(kokoro, length, names, *about)
    yield BenchmarkTable(
        f"Decoder from har, {length:g} s, in several sessions at once", [row.as_dict() for row in rows], skipped
    )


def _scale(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    names, curves = options.backends or scale.BACKENDS, (options.threads, options.batches)
    rows, skipped = scale.measure(
        kokoro, options.lengths, names, *curves, options.rounds, options.seed, options.limit, options.folder
    )
    yield BenchmarkTable("Decoder from har by length, threads and batch", [row.as_dict() for row in rows], skipped)


def _localisation_cost(_kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    for name in options.backends or QUICK:
        yield BenchmarkTable(
            f"Cost of finding one wrong operator on {name}", [*localisation_cost(name, seed=options.seed)]
        )


def _inspection(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    yield BenchmarkTable(
        "Inspection of chains of nodes, (256, 256) float32 between them", [*inspection_cost.by_nodes()]
    )
    whole = inspection_cost.of_model(kokoro, INSPECTED, options.seed)
    yield BenchmarkTable("Inspection of the whole model, as kokoro-onnx gets it", [whole])


def _notebooks(_kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    rows = notebook_times(Path(options.recorded) / "run")
    yield BenchmarkTable("Seconds of each notebook in its last run, by kind of work", rows)


def _tests(_kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    rows = [*test_times(Path(options.recorded) / TESTS)]
    yield BenchmarkTable("Seconds of each test file in the last run, by kind of work", rows)


def _startup(kokoro: Kokoro, options: BenchmarkOptions) -> Iterator[BenchmarkTable]:
    yield BenchmarkTable("Time of a notebook's imports, by package", imports(options.modules, options.rounds))
    length = options.lengths[0]
    inputs = decoder_inputs(kokoro, frames_of(length), options.seed)
    found = cached_exports(exported_decoder(kokoro, inputs), inputs, options.backends or DECODER_BACKENDS)
    yield BenchmarkTable(f"Exports of the decoder, {length:g} s, made and found in the cache", *found)


_RUNNERS: Mapping[str, Callable[[Kokoro, BenchmarkOptions], Iterator[BenchmarkTable]]] = MappingProxyType(
    {
        "decoders": _decoders,
        "text-to-audio": _text_to_audio,
        "profiles": _profiles,
        "graph-patches": _graph_patches,
        "omissions": _omissions,
        "streaming": _streaming,
        "quantisation": _quantisation,
        "word-error-rate": _word_error_rate,
        "trace-overhead": _trace_overhead,
        "sessions": _sessions,
        "scale": _scale,
        "localisation-cost": _localisation_cost,
        "inspection": _inspection,
        "notebooks": _notebooks,
        "tests": _tests,
        "startup": _startup,
    }
)
