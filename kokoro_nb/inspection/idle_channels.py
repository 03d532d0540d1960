"""Channels that carry nothing: dead ones, which never vary on these inputs, and such as are another one over again.

Looked at are the results of products with weights, and what is done to them element by element afterwards. A channel is
named where it falls silent first. It is no fault by itself: pruning leaves such channels, and so does a dying ReLU.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from kokoro_nb.inspection.node_judgement import is_float
from kokoro_nb.inspection.saved_progress import Gathering
from kokoro_nb.markup import number

LEAST = 16  # elements of a channel; a few may well be alike by chance
NAMED = 5  # channels, and nodes, that a sentence names
UNITS = 16  # units in the last place of a channel's peak: sums of the same products in another order
_BY_COLUMN = (
    "matmul gemm fusedmatmul matmulinteger qlinearmatmul matmulnbits qgemm dynamicquantizematmul matmulintegertofloat "
    "linear addmm mm"
)
_BY_ROW = (
    "conv convtranspose fusedconv qlinearconv convinteger convolution conv1d conv2d conv_transpose conv_transpose1d "
    "conv_transpose2d"
)
MAKERS = dict.fromkeys(_BY_ROW.split(), 1) | dict.fromkeys(_BY_COLUMN.split(), -1)
"""Operators that make channels, by the axis of these."""
_CARRIERS = """
relu leakyrelu leaky_relu prelu clip clamp sigmoid tanh elu gelu silu add sub mul div cast identity batchnormalization
batch_norm instancenormalization instance_norm quantizelinear dequantizelinear
"""
CARRIERS = frozenset(_CARRIERS.split())
"""Operators that leave channels where they are."""


@dataclass(frozen=True)
class IdleChannels:
    """Channels of one node that carry nothing, although what goes into the node does.

    Attributes
    ----------
    key, operator : str
        The node.
    channels : int
        How many it has.
    dead : tuple of int
        Those of which every element is the same.
    doubled : tuple of (int, int)
        Those that are another one over again, behind that one.
    cause : str
        What of the weights explains it, in words; empty if nothing does.
    """

    key: str
    operator: str
    channels: int
    dead: tuple[int, ...]
    doubled: tuple[tuple[int, int], ...]
    cause: str = ""

    def __str__(self) -> str:
        parts = []
        if self.dead:
            parts.append(f"{_several([str(one) for one in self.dead])} never vary")
        if self.doubled:
            parts.append(f"{_several([f'{other} (as {one})' for one, other in self.doubled])} repeat another one")
        why = self.cause or "the weights do not explain it, so other inputs may move them"
        return f"{self.key} ({self.operator}), channels of {self.channels:,}: {'; '.join(parts)}; {why}."


def _several(words: Sequence[str]) -> str:
    rest = len(words) - NAMED
    return f"{', '.join(words[:NAMED])}{f' and {rest:,} more' if rest > 0 else ''}"


class ViewedNode(Protocol):
    """A node of any format: an `OnnxNode` or a `ComparedNode`."""

    @property
    def key(self) -> str:
        """Its id."""

    @property
    def operator(self) -> str:
        """Its operator."""

    @property
    def reads(self) -> tuple[str, ...]:
        """What it reads."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it gives."""


class ChannelWatch(Gathering):
    """Looks at the channels while nodes pass one after the other.

    Parameters
    ----------
    constants : container of str
        Names of the constants.

    Attributes
    ----------
    found : list of IdleChannels
        What was seen so far, in the order of execution.
    known : dict of str to tuple
        Axis of the channels of each value that has any, those that are dead in it, and those that are doubled.
    fixed : set of str
        What is made of constants alone, such as weights that were integers.
    """

    gathered = ("found", "known", "fixed")

    def __init__(self, constants: Container[str] = ()) -> None:
        self.constants = constants
        self.found: list[IdleChannels] = []
        self.known: dict[str, tuple[int, frozenset[int], frozenset[tuple[int, int]]]] = {}
        self.fixed: set[str] = set()

    def see(self, node: ViewedNode, values: Mapping[str, Any], own: Mapping[str, np.ndarray] | None = None) -> None:
        """Take in one node.

        Parameters
        ----------
        node : ViewedNode
            The node.
        values : mapping of str to value
            What it reads and gives.
        own : mapping of str to numpy.ndarray, optional
            Constants that it holds itself, besides what it reads.
        """
        fixed = [name for name in node.reads if name in self.constants or name in self.fixed]
        if node.reads and len(fixed) == len(node.reads):
            self.fixed.update(node.outputs)
            return
        value = values.get(node.outputs[0]) if node.outputs else None
        weights = {**{name: np.asarray(values[name]) for name in fixed}, **(own or {})}
        kind = node.operator.removesuffix(".default").rsplit(".", 1)[-1].lower()
        axis = self._axis(kind, node.reads, value, weights)
        if axis is None:
            return
        before = [self.known[one][1:] for one in node.reads if one in self.known] if kind in CARRIERS else []
        dead, doubled = idle(np.asarray(value), axis)
        self.known[node.outputs[0]] = (axis, dead, doubled)
        new = dead.difference(*(one[0] for one in before)), doubled.difference(*(one[1] for one in before))
        if new[0] or new[1]:
            count = int(np.asarray(value).shape[axis])
            cause = weights_say(weights.values(), count, axis, *new)
            both = tuple(sorted(new[0])), tuple(sorted(new[1]))
            self.found.append(IdleChannels(node.key, node.operator, count, *both, cause))

    def _axis(self, kind: str, reads: Iterable[str], value: Any, constants: Mapping[str, np.ndarray]) -> int | None:
        """Return the axis of the channels of a result; None if it has none that are known."""
        if not isinstance(value, np.ndarray) or (value.dtype.kind not in "fiu" and not is_float(value.dtype)):
            return None
        if kind in MAKERS and value.ndim > 1:
            return MAKERS[kind] if MAKERS[kind] == 1 or constants else None
        if kind in CARRIERS:
            axes = {self.known[one][0] for one in reads if one in self.known}
            return next(iter(axes)) if len(axes) == 1 and value.ndim > 1 else None
        return None

    def forget(self, names: Iterable[str]) -> None:
        """Forget values that no later node reads."""
        for name in names:
            self.known.pop(name, None)


def idle(value: np.ndarray, axis: int) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    """Return the channels that never vary, and those that repeat an earlier one; none of a value that varies nowhere.

    What is not finite is neither.
    """
    rows = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1).astype(np.float64)
    nothing: tuple[frozenset[int], frozenset[tuple[int, int]]] = (frozenset(), frozenset())
    if rows.shape[0] < 2 or rows.shape[1] < LEAST or not np.isfinite(rows).all():
        return nothing
    still = (rows == rows[:, :1]).all(axis=1)
    if still.all():
        return nothing
    eps = float(np.finfo(value.dtype).eps) if value.dtype.kind == "f" else 0.0
    peaks = np.abs(rows).max(axis=1)
    marks = rows @ np.random.default_rng(rows.shape[1]).standard_normal(rows.shape[1])
    order = [int(k) for k in np.argsort(marks, kind="stable") if not still[k]]
    doubled = set()
    for one, other in pairwise(order):
        if np.abs(rows[one] - rows[other]).max() <= UNITS * eps * peaks[one]:
            first, again = sorted((one, other))
            doubled.add((first, again))
    return frozenset(int(k) for k in np.flatnonzero(still)), frozenset(doubled)


def weights_say(
    constants: Iterable[np.ndarray],
    channels: int,
    axis: int,
    dead: Iterable[int],
    doubled: Iterable[tuple[int, int]],
) -> str:
    """Return in words whether the weights explain it: those of a dead channel are all 0, those of a double the same."""
    for one in constants:
        if one.ndim < 2 or channels not in one.shape:
            continue
        place = (0 if one.shape[0] == channels else 1) if axis == 1 else one.ndim - 1
        place = place if one.shape[place] == channels else 0
        rows = np.moveaxis(one, place, 0).reshape(channels, -1)
        if all(not rows[k].any() for k in dead) and all((rows[a] == rows[b]).all() for a, b in doubled):
            return "their weights are 0 or the same"
    return ""


def idle_notes(found: Sequence[IdleChannels]) -> tuple[str, ...]:
    """Return what was seen in sentences, the first nodes alone if there are many."""
    rest = len(found) - NAMED
    more = (f"{number(rest)} more nodes have channels that never vary or repeat another one.",) if rest > 0 else ()
    return (*(str(one) for one in found[:NAMED]), *more)
