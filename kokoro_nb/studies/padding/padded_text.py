"""The text in a longer buffer: durations and features of the encoders, given the length and not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.models.case import Case
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class PaddedText:
    """What the first stage computes of a text in a buffer, against the package's own, which packs its sequences.

    Attributes
    ----------
    bucket : int
        Size of the buffer, tokens.
    given_length : bool
        Whether the stage has the length as an input; without it, the whole buffer counts as text.
    durations : bool
        Whether the duration of every token is the package's.
    d, t_en : float
        Largest change of the features for the prosody and for the decoder, of their peak.
    """

    bucket: int
    given_length: bool
    durations: bool
    d: float
    t_en: float

    @property
    def worst(self) -> float:
        """The larger of the two changes."""
        return float(np.max([self.d, self.t_en]))  # a NaN is the worst

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        program = "given the length" if self.given_length else "not given the length"
        row: dict[str, Any] = {"bucket (tokens)": self.bucket, "program": program}
        return {**row, "durations identical": self.durations, "d (of peak)": self.d, "t_en (of peak)": self.t_en}


def text_in_buffer(model: KModel, case: Case, bucket: int, given_length: bool = True) -> PaddedText:
    """Run the first stage of the unpatched model on the text of `case` in a buffer of `bucket` tokens.

    Raises
    ------
    InputError
        If the text is longer than the buffer.
    """
    ids = case.tensors["ids"]
    count, wide = ids.shape[1], widened({"ids": ids}, bucket)["ids"]
    length, speed = torch.tensor([count if given_length else bucket]), torch.tensor([case.speed])
    with torch.no_grad():
        durations, d, t_en = DurationStage(model)(wide, length, case.tensors["ref_s"], speed)
    same = torch.equal(durations[0, :count], case.tensors["durations"])
    changes = compare(case.tensors["d"], d[:, :count]).of_peak, compare(case.tensors["t_en"], t_en[..., :count]).of_peak
    return PaddedText(bucket, given_length, same, *changes)
