"""The pipeline as one backend ran it, and what padding changes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from kokoro_nb.backends.ladder import Outputs
from kokoro_nb.models.static_buffers import EXTENTS
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class Walk:
    """The pipeline as the reference ran it.

    Attributes
    ----------
    inputs : dict
        What the pipeline was given, in its static buffers: see `models.buffers.static_inputs`.
    values : dict
        Every output by name, as it was computed.
    tokens, frames : int
        How much of the buffers is valid: tokens of the text, and the frames that they last, or all there is room for.
    room : int
        Frames that there is room for.
    """

    backend: str
    inputs: Mapping[str, Tensor]
    values: Outputs = field(repr=False)
    tokens: int
    frames: int
    room: int
    patches: tuple[str, ...]

    @property
    def valid(self) -> dict[str, int]:
        """Valid length of the two axes that can be padded."""
        return {"tokens": self.tokens, "frames": self.frames}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what the pipeline computed, in its order."""
        return tuple(name for name in self.values if name not in self.inputs)


def leaks(padded: Walk, plain: Walk) -> list[dict[str, Any]]:
    """Return the rows of a table: how far the padding changes what is valid, output by output.

    Parameters
    ----------
    padded, plain : Walk
        The same utterance in buffers that are longer than it, and in buffers that it fills, on one backend.
    """
    rows: list[dict[str, Any]] = []
    for name in plain.outputs:
        found, expected = (valid_part(name, one.values[name], one.valid) for one in (padded, plain))
        row: dict[str, Any] = {"output": name, "plain": expected.shape, "padded": found.shape}
        same = found.shape == expected.shape
        error = compare(expected, found).of_peak if same else "durations differ, and so the length"
        rows.append({**row, "change (of peak)": error})
    return rows


@dataclass(frozen=True)
class Tail:
    """What lies behind the valid part of a buffer of static length.

    Attributes
    ----------
    elements : int
        How many elements; never 0.
    nonzero : float
        Share of them that is not 0, 0 to 1; NaN is not 0.
    finite : float
        Share of them that is finite, 0 to 1.
    peak : float
        Largest absolute value among them; NaN if there is one.
    """

    elements: int
    nonzero: float
    finite: float
    peak: float

    def as_dict(self) -> dict[str, float]:
        """Return the cells of a table, with units in its keys."""
        shares = {"non-zero (%)": 100 * self.nonzero, "finite (%)": 100 * self.finite}
        return {"elements": self.elements, **shares, "peak": self.peak}


def valid_part(name: str, value: np.ndarray, valid: Mapping[str, int]) -> np.ndarray:
    """Return the valid part of the output `name`, for so many valid ``tokens`` and ``frames``."""
    return value[_box(name, value, valid)]


def tail_of(name: str, value: np.ndarray, valid: Mapping[str, int]) -> Tail | None:
    """Describe what lies behind the valid part of the output `name`; None if there is nothing."""
    behind = np.ones(value.shape, dtype=bool)
    behind[_box(name, value, valid)] = False
    rest = value[behind].astype(np.float64)
    if not rest.size:
        return None
    nonzero, finite = float((rest != 0).mean()), float(np.isfinite(rest).mean())
    return Tail(rest.size, nonzero, finite, float(np.max(np.abs(rest))))


def _box(name: str, value: np.ndarray, valid: Mapping[str, int]) -> tuple[slice, ...]:
    lengths = {extent.axis: extent.length(valid) for extent in EXTENTS[name]}
    return tuple(slice(lengths.get(axis)) for axis in range(value.ndim))
