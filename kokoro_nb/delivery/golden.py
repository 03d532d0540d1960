"""What is computed between and behind the programs, for an integrator in any language to check against.

The numbers are recorded from the pipeline itself.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.delivery.contract import Contract, Part
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.storage import write_json

SCHEMA = 1
BUCKETS = {"10s": 400, "1s": 40, "3s": 120}  # frames; not in order, for no reader may take the first that fits
SAMPLE_RATE, SAMPLES_PER_FRAME = 24_000, 600
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
