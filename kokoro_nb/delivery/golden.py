"""What the snippets for C++, Kotlin and Swift must compute: recorded from the pipeline itself, and checked."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.delivery.contract import Contract, Part
from kokoro_nb.delivery.languages import LANGUAGES, SNIPPETS, Language, available
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_json, write_json

SCHEMA = 1
BUCKETS = {"10s": 400, "1s": 40, "3s": 120}  # frames; not in order, for no reader may take the first that fits
SAMPLE_RATE, SAMPLES_PER_FRAME = 24_000, 600
ENDED = "program: ended"  # a program that reports everything and then dies has not passed
SECONDS = 300.0  # for a compiler to come to an end
# Name -> durations in frames of each token, and how many tokens of room stay empty behind them.
CASES: Mapping[str, tuple[tuple[int, ...], int]] = {
    "empty tail": ((3, 5, 2, 7), 0),
    "room behind the text": ((3, 5, 2, 7), 4),
    "a token of one frame": ((4, 1, 1, 6), 2),
    "a full bucket": ((10, 20, 30, 60), 1),
    "one frame more than a bucket": ((10, 20, 30, 61), 1),
    "the largest bucket, full": ((100, 150, 150), 1),
    "one frame too many": ((100, 150, 151), 1),
    "long": (tuple(1 + 5 * token % 7 for token in range(90)), 38),
}


@dataclass(frozen=True)
class SnippetCheck:
    """Which of the golden vectors a snippet computes rightly.

    Attributes
    ----------
    passed, failed : tuple of str
        ``function: case``, and ``program: ended``; what was not reached because the program died has failed.
    said : str
        Output of compiler and program, where something failed.
    """

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    said: str = ""


def golden_vectors() -> dict[str, Any]:
    """Return what the pipeline computes between and behind its programs, for a few cases.

    Returns
    -------
    dict
        ``schema``; ``samples_per_frame``; ``buckets``: name -> frames; ``cases``, each with ``name``; ``durations``,
        frames of each token, 0 behind the text; ``alignment``, the token of each frame; ``bucket``, frames of the one
        that is used, null where none has room; ``samples``, how many of the audio are valid, null where there is none.
    """
    cases = [{"name": name, **_computed(*case)} for name, case in CASES.items()]
    return {"schema": SCHEMA, "samples_per_frame": SAMPLES_PER_FRAME, "buckets": BUCKETS, "cases": cases}


def write_golden(path: str | Path) -> Path:
    """Write `golden_vectors` as JSON, whole or not at all, and return the path."""
    return write_json(path, golden_vectors())


def check(language: str, folder: str | Path = SNIPPETS) -> SnippetCheck | str:
    """Compile the snippet of a language in `folder` with a small program, and run it on the golden vectors.

    Parameters
    ----------
    language : str
        Key of `LANGUAGES`.
    folder : path
        Holds the snippet, as delivered or as an integrator changed it; nothing is written there.

    Returns
    -------
    SnippetCheck or str
        The reason where it cannot be compiled here: what is not run has not passed.

    Raises
    ------
    InputError
        If there is no such language, or no such snippet in `folder`.
    """
    if language not in LANGUAGES:
        raise InputError(f"There is no snippet in '{language}'; use one of {', '.join(LANGUAGES)}.")
    about = LANGUAGES[language]
    if not (Path(folder) / about.snippet).is_file():
        raise InputError(f"There is no {about.snippet} in {folder}; name the folder that holds it.")
    absent = available(language)
    if absent:
        return absent
    compiler = next(name for name in about.compilers if shutil.which(name))
    with tempfile.TemporaryDirectory() as room:
        vectors = read_json(write_golden(Path(room) / "golden.json"), "golden vectors")
        shutil.copy(Path(folder) / about.snippet, room)
        (Path(room) / about.main[0]).write_text(_program(about, vectors), encoding="utf-8")
        made = _completed([compiler, *about.compile], room)
        ran = made if made.returncode else _completed(about.run, room)
    right = {line.removeprefix("ok ") for line in ran.stdout.splitlines() if line.startswith("ok ")}
    right |= {ENDED} if ran.returncode == 0 else set()
    checks = (*_checks(vectors), ENDED)
    failed = tuple(name for name in checks if name not in right)
    return SnippetCheck(
        tuple(name for name in checks if name in right), failed, ran.stdout + ran.stderr if failed else ""
    )


class _Rehearsal(TwoStages):
    """The pipeline with programs that record their inputs: no folder, no runtime."""

    def __init__(self, durations: tuple[int, ...], behind: int):
        self.tokens, self.room = len(durations), 0
        self.row = np.array([durations + (0,) * behind])
        decoder = Part("", "", (TensorSpec("s", (1, 1), "float32"),), ())
        sizes = (self.row.size, BUCKETS, SAMPLE_RATE, SAMPLES_PER_FRAME)
        self.contract = Contract("", *sizes, "", {"a": 1}, {}, {f"decoder_{name}": decoder for name in BUCKETS})

    def run(self, name: str, known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Give durations, and token i the feature i; or audio as long as the bucket, the value of sample i being i."""
        if name == "duration":
            index = np.arange(self.row.size, dtype=np.float32)
            return {"pred_dur": self.row, "d": index[None, :, None], "t_en": index[None, None]}
        if not name.startswith("decoder"):
            return {}
        self.room = known["asr"].shape[-1]
        return {"audio": np.arange(self.room * SAMPLES_PER_FRAME, dtype=np.float32)[None]}


def _computed(durations: tuple[int, ...], behind: int) -> dict[str, Any]:
    rehearsal = _Rehearsal(durations, behind)
    features = rehearsal.predict("a" * (rehearsal.tokens - 2), np.zeros((510, 1), dtype=np.float32))
    made = {"durations": rehearsal.row[0].tolist(), "alignment": features["asr"][0, 0].astype(int).tolist()}
    try:
        audio = rehearsal.decode(features, lambda frames: np.zeros((1, frames * SAMPLES_PER_FRAME, 1), np.float32))
    except InputError:
        return {**made, "bucket": None, "samples": None}
    return {**made, "bucket": rehearsal.room, "samples": audio.size}


def _checks(vectors: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the checks that a program has to report; audio that no bucket has room for is not trimmed."""
    return tuple(
        f"{function}: {case['name']}"
        for case in vectors["cases"]
        for function in ("alignment", "bucket", "trimming")
        if function != "trimming" or case["samples"] is not None
    )


def _program(about: Language, vectors: Mapping[str, Any]) -> str:
    calls = [about.case.format_map({key: _literal(value) for key, value in case.items()}) for case in vectors["cases"]]
    words = {
        "CASES": "\n".join(calls),
        "ROOMS": _literal([*vectors["buckets"].values()]),
        "PER_FRAME": str(vectors["samples_per_frame"]),
    }
    text = about.main[1]
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _literal(value: Any) -> str:
    """Write a value of the vectors: the items of a list, and -1 for null."""
    return ", ".join(map(str, value)) if isinstance(value, list) else "-1" if value is None else str(value)


def _completed(command: Sequence[str], folder: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} did not end within {SECONDS:.0f} s")
