"""Several sessions at once, as a server has them: in one process, and each in a process of its own."""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.fresh_process import module_command, write_request
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks import session_process
from kokoro_nb.benchmarks.interleaved import LIMIT, Spread, ratio, spread
from kokoro_nb.benchmarks.machine import cores
from kokoro_nb.benchmarks.requested_calls import request_of, save_module
from kokoro_nb.benchmarks.session_process import CALLS
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
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro

COUNTS = (1, 2, 4)
BACKENDS = ("onnxruntime", "executorch-xnnpack", "tvm-scheduled")
TOGETHER, APART = "one process", "a process each"


@dataclass(frozen=True)
class SessionsRow:
    """A number of sessions, and what they computed together.

    Attributes
    ----------
    program : str
        Backend of the decoder.
    sessions : int
    place : str
        `TOGETHER` or `APART`.
    threads : int
        That each session may compute on, where the runtime can be told.
    throughput : Spread
        Seconds of audio per second, all sessions together: median and quartiles of the rounds.
    gain : Spread
        Times the throughput of one session on all cores, in the same round.
    memory : float
        Of all processes together, MB; what they share counts once (proportional set size).
    """

    program: str
    sessions: int
    place: str
    threads: int
    throughput: Spread
    gain: Spread
    memory: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row = {"program": self.program, "sessions": self.sessions, "in": self.place, "threads each": self.threads}
        row |= {"audio per second (s)": self.throughput.median, "x one session": self.gain.median}
        row |= {"from": self.gain.low, "to": self.gain.high, "rounds": self.gain.rounds}
        return {**row, "memory (MB)": self.memory, "memory per session (MB)": self.memory / self.sessions}


def measure(
    kokoro: Kokoro,
    length: float,
    backends: Sequence[str] = BACKENDS,
    counts: Sequence[int] = COUNTS,
    rounds: int = ROUNDS,
    seed: int = 0,
    folder: str | Path | None = None,
) -> tuple[tuple[SessionsRow, ...], dict[str, str]]:
    """Measure the decoder from `har` in several sessions at once, eager first.

    Each session has loaded the program for itself, and computes `CALLS` times; all begin together. The cores are shared
    out: two sessions on two cores have a thread each. In each round all numbers of sessions of a program take their
    turn, each in new processes.

    Parameters
    ----------
    kokoro, length, backends, rounds, seed, folder
        See `decoders.measure`.
    counts : sequence of int
        Numbers of sessions; one session on all cores is measured in any case.

    Returns
    -------
    tuple of SessionsRow, dict
        And backend -> why it is not among them.

    Raises
    ------
    InputError
        If the length or a number is no good.
    RuntimeError
        If a process fails, as it does on a system that does not say what memory processes share; with what it printed.
    """
    if not counts or any(count < 1 for count in counts):
        raise InputError(f"{[*counts]} are no numbers of sessions; give 1 or more of them.")
    inputs = decoder_inputs(kokoro, frames_of(length), seed)
    exported = exported_decoder(kokoro, inputs)
    made, skipped = made_of(backends, lambda name: export_to(name, exported, inputs, folder), {}, length, LIMIT)
    programs = {BASE: eager_artifact(stages.FromHarStage(kokoro.model.decoder), inputs), **made}
    rows = [row for name, one in programs.items() for row in _rows(name, one, inputs, length, sorted(counts), rounds)]
    return tuple(rows), skipped


def _rows(
    name: str, artifact: Artifact, inputs: Arrays, length: float, counts: Sequence[int], rounds: int
) -> Iterator[SessionsRow]:
    ways = {(1, TOGETHER): (1, 1)}  # sessions, place -> processes, sessions in each
    for count in counts:
        if count > 1:
            ways |= {(count, TOGETHER): (1, count), (count, APART): (count, 1)}
    times: dict[tuple[int, str], list[float]] = {way: [] for way in ways}
    memory: dict[tuple[int, str], list[float]] = {way: [] for way in ways}
    request, arrays, module = request_of(artifact, inputs)
    with tempfile.TemporaryDirectory() as room:
        save_module(module, Path(room))
        for _ in range(rounds):
            for way, (processes, each) in ways.items():
                about = {**request, "threads": _threads(way[0]), "sessions": each}
                write_request(Path(room), about, arrays)
                seconds, most = _round(Path(room), about["threads"], processes)
                times[way].append(seconds / (way[0] * CALLS * length))
                memory[way].append(most)
    for (count, place), found in times.items():
        throughput, gain = spread([1 / one for one in found]), ratio(times[1, TOGETHER], found)
        yield SessionsRow(name, count, place, _threads(count), throughput, gain, spread(memory[count, place]).median)


def _threads(sessions: int) -> int:
    return max(1, cores() // sessions)


def _round(folder: Path, threads: int, processes: int) -> tuple[float, float]:
    """Return the seconds from the first call of all sessions to the end of the last, and the memory that they hold."""
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(folder, threads)) for _ in range(processes)]
        _, spans, memory = (_answers(workers, word) for word in ("load", "call", "memory"))
    starts, ends = zip(*spans, strict=True)
    return float(np.max(ends) - np.min(starts)), sum(memory)


@dataclass(frozen=True)
class _Worker:
    process: subprocess.Popen[str]
    said: IO[str]  # what it prints beside its answers

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and `answer` says why
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.said.seek(0)
            raise RuntimeError(
                f"A process with sessions ended with {self.process.returncode}: {self.said.read().strip()}"
            )
        return json.loads(line)


def _answers(workers: Sequence[_Worker], word: str) -> list[Any]:
    """Say a word to all of them, and return what each answers when all have begun."""
    for worker in workers:
        worker.say(word)
    return [worker.answer() for worker in workers]


@contextmanager
def _worker(folder: Path, threads: int) -> Iterator[_Worker]:
    command, environment = module_command(session_process.__name__, folder)
    environment |= {"OMP_NUM_THREADS": str(threads), "TVM_NUM_THREADS": str(threads)}
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(command, text=True, env=environment, stdin=pipe, stdout=pipe, stderr=said)
        with process:
            try:
                yield _Worker(process, said)
            finally:
                process.kill()
