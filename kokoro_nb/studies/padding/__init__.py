"""09: what padding does to the valid part of decoder and text, and what exact padding costs on a runtime."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.studies.decoder import decoder_part
from kokoro_nb.studies.padding.padded_decoder import decoder_in_buffers
from kokoro_nb.studies.padding.padding_audit import where_it_begins
from kokoro_nb.traces.statistics import compare


@dataclass(frozen=True)
class PaddedRuntime:
    """The decoder from `har` on one runtime, without padding, in a buffer, and in a buffer with its length as an input.

    Attributes
    ----------
    row : SurveyRow
        Of the first that is absent, fails or is not run; else of the one with its length.
    errors : dict
        ``plain``, ``naive`` or ``exact`` -> largest difference of the valid audio to eager's without padding, of peak.
    seconds : dict
        Of the fastest call, in the same order.
    """

    row: SurveyRow
    errors: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        if not self.errors:
            return {"backend": self.row.backend, "not measured": self.row.outcome}
        errors = {f"{kind}: error (of peak)": error for kind, error in self.errors.items()}
        return {
            "backend": self.row.backend,
            **errors,
            "exact / naive time": self.seconds["exact"] / self.seconds["naive"],
        }


def on_runtime(model: KModel, case: Case, name: str, frames: int, bucket: int, calls: int = 9) -> PaddedRuntime:
    """Export the decoder from `har` three times, and run each on the backend `name`.

    Parameters
    ----------
    frames, bucket : int
        How many frames are valid, and for how many there is room.
    calls : int
        Of each program.
    """
    outputs, seconds = {}, {}
    with torch.no_grad(), patched(model, EXPORT_PATCHES):
        stage, plain = decoder_part(model, case, frames)
        wide = widened(plain, bucket)
        expected = stage(**plain).numpy()
        for kind, given in {"plain": plain, "naive": wide, "exact": {**wide, "length": torch.tensor([frames])}}.items():
            (row,) = survey(stage, given, [name], calls)
            if row.climb is None or row.climb.outputs is None:
                return PaddedRuntime(row)
            outputs[kind], seconds[kind] = next(iter(row.climb.outputs.values())), min(row.climb.calls)
    errors = {kind: compare(expected, found[:, : expected.shape[1]]).of_peak for kind, found in outputs.items()}
    return PaddedRuntime(row, errors, seconds)


@dataclass(frozen=True)
class PaddedText:
    """Both encoders over tokens in one buffer, compared with the package's own on the same text.

    Attributes
    ----------
    bucket : int
        Room for so many tokens.
    given_length : bool
        Whether the program was given the number of tokens.
    durations : bool
        Whether every predicted duration is identical.
    d, t_en : float
        Largest change of the features, as a share of the peak.
    """

    bucket: int
    given_length: bool
    durations: bool
    d: float
    t_en: float

    @property
    def worst(self) -> float:
        """The larger change; NaN as soon as one is not a number."""
        return float(np.max([self.d, self.t_en]))


def text_in_buffer(model: KModel, case: Case, bucket: int, given_length: bool = True) -> PaddedText:
    """Run both encoders on the text of `case` with room for `bucket` tokens.

    Raises
    ------
    InputError
        If the text has more tokens.
    """
    ids = case.tensors["ids"]
    count, wide = ids.shape[1], widened({"ids": ids}, bucket)["ids"]
    length, speed = torch.tensor([count if given_length else bucket]), torch.tensor([case.speed])
    with torch.no_grad():
        durations, d, t_en = DurationStage(model)(wide, length, case.tensors["ref_s"], speed)
    same = torch.equal(durations[0, :count], case.tensors["durations"])
    changes = compare(case.tensors["d"], d[:, :count]).of_peak, compare(case.tensors["t_en"], t_en[..., :count]).of_peak
    return PaddedText(bucket, given_length, same, *changes)
