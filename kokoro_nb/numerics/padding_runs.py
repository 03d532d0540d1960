"""The decoder without padding, in a longer buffer, and in one that it is told the length of, for each kind of noise."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, stages
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.padding import PaddedDecoderStage, widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.numerics.parity import Parity, compare

SIGNAL = "signal"  # sin(137 x) cos(211 x) of the harmonic signal x, which an older port took for noise
KINDS = (*get_args(noise.NoiseKind), SIGNAL)


@dataclass(frozen=True)
class PaddedRun:
    """The valid audio of one decoder, three times.

    Attributes
    ----------
    kind : str
        Of the source's noise: see `KINDS`.
    frames, bucket : int
        How many frames are valid, and for how many there is room.
    plain, naive, exact : numpy.ndarray, shape (600 * frames,), float32, full scale 1
        Without padding; in the buffer, zeros behind the valid frames; in the buffer, with the length as an input.
    seconds : dict
        Wall time of the one call for each of the three.
    """

    kind: str
    frames: int
    bucket: int
    plain: np.ndarray
    naive: np.ndarray
    exact: np.ndarray
    seconds: dict[str, float]

    @property
    def leaking(self) -> Parity:
        """The naive run against the one without padding."""
        return compare(self.plain, self.naive)

    @property
    def kept(self) -> Parity:
        """The exact run against the one without padding."""
        return compare(self.plain, self.exact)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"noise": self.kind, "valid (frames)": self.frames, "bucket (frames)": self.bucket}
        for name, audio, parity in (("naive", self.naive, self.leaking), ("exact", self.exact, self.kept)):
            row[f"{name}: amplitude ratio"] = float(np.max(np.abs(audio)) / parity.peak)
            row[f"{name}: correlation"] = parity.correlation
        return {**row, "exact: error (of peak)": self.kept.of_peak}


def padded_run(model: KModel, case: Case, frames: int, bucket: int, kind: str, seed: int = 0) -> PaddedRun:
    """Run the whole decoder on the first `frames` of an utterance, without padding and in a buffer of `bucket` frames.

    The source's noise goes on through the padding, as it does in a port that draws it for the whole buffer.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; it runs with those of an export.
    case : Case
        The utterance.
    frames, bucket : int
        See `PaddedRun`.
    kind : str
        See `KINDS`.
    seed : int
        Seed of the Gaussian noise.

    Raises
    ------
    InputError
        If the kind is unknown, the utterance has no such frames, or the bucket is smaller.
    """
    if kind not in KINDS:
        raise InputError(f"There is no noise '{kind}'; use one of {', '.join(KINDS)}.")
    drawn = noise.draw(bucket, seed, "zero" if kind == SIGNAL else cast(noise.NoiseKind, kind)).harmonic
    patches = [name for name in EXPORT_PATCHES if name != "explicit_noise"]
    inputs = {**case.decoder_inputs(frames), "harmonic_noise": drawn[:, : SAMPLES_PER_FRAME * frames]}
    wide = {**widened(inputs, bucket), "harmonic_noise": drawn}
    length = torch.tensor([frames])
    with torch.no_grad(), patched(model, [*patches, "signal_noise" if kind == SIGNAL else "explicit_noise"]):
        plain, exact = stages.DecoderStage(model.decoder), PaddedDecoderStage(model.decoder)
        calls = {
            "plain": lambda: plain(**inputs),
            "naive": lambda: plain(**wide),
            "exact": lambda: exact(**wide, length=length),
        }
        heard, seconds = _timed(calls)
    cut = {name: audio[0, : SAMPLES_PER_FRAME * frames].numpy() for name, audio in heard.items()}
    return PaddedRun(kind, frames, bucket, cut["plain"], cut["naive"], cut["exact"], seconds)


def _timed(calls: dict[str, Callable[[], Tensor]]) -> tuple[dict[str, Tensor], dict[str, float]]:
    results, seconds = {}, {}
    for name, call in calls.items():
        start = time.perf_counter()
        results[name] = call()
        seconds[name] = time.perf_counter() - start
    return results, seconds
