"""The decoder from `har` on a runtime: without padding, in a buffer, and in a buffer with the length as an input."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.ladder import climb
from kokoro_nb.benchmarks.interleaved import Spread, paired
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class PaddedRuntime:
    """What padding does on one runtime.

    Attributes
    ----------
    backend : str
        Its name.
    reason : str
        Why nothing was measured; empty if it was.
    failure : Failure or None
        That of the export or the run, if that is why.
    errors : mapping
        ``plain`` (without padding), ``naive`` and ``exact`` -> error of the valid audio against eager without padding,
        of the peak.
    cost : Spread or None
        How many times as long as the naive program the exact one takes.
    """

    backend: str
    reason: str = ""
    failure: Failure | None = None
    errors: Mapping[str, float] = field(default_factory=dict)
    cost: Spread | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        errors = {f"{kind}: error (of peak)": error for kind, error in self.errors.items()}
        cost = {"exact / naive time": self.cost.text} if self.cost else {"not measured": self.reason}
        return {"backend": self.backend, **errors, **cost}


def on_runtime(model: KModel, case: Case, name: str, frames: int, bucket: int, rounds: int = 9) -> PaddedRuntime:
    """Export the decoder from `har` three times, compare the valid audio with eager's, and time the two buffers.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; it is exported with those of an export.
    case : Case
        The utterance.
    name : str
        Key of `BACKENDS`.
    frames, bucket : int
        How many frames are valid, and how many the buffer holds.
    rounds : int
        In each of which both programs in the buffer are called once.
    """
    runtime = backend(name)
    absent = runtime.available()
    if absent:
        return PaddedRuntime(name, absent)
    with torch.no_grad(), patched(model, EXPORT_PATCHES):
        plain = stages.from_har_inputs(model.decoder, case.decoder_inputs(frames))
        wide = widened(plain, bucket)
        exact = {**wide, "length": torch.tensor([frames])}
        stage = stages.FromHarStage(model.decoder)
        expected = stage(**plain).numpy()
        programs = {"plain": (stage, plain), "naive": (stage, wide), "exact": (stage, exact)}
        taken = {kind: climb(runtime, module, inputs, None, 1) for kind, (module, inputs) in programs.items()}
    audio, calls = {}, {}
    for kind, one in taken.items():
        if one.outputs is None or one.artifact is None:
            return PaddedRuntime(name, str(one.failure or one.unexecuted), one.failure)
        audio[kind] = next(iter(one.outputs.values()))[:, : expected.shape[1]]
        calls[kind] = partial(runtime.load(one.artifact).run, programs[kind][1])
    errors = {kind: compare(expected, found).of_peak for kind, found in audio.items()}
    return PaddedRuntime(name, errors=errors, cost=paired(calls["exact"], calls["naive"], rounds))
