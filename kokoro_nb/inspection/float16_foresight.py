"""What float16 would do to a float32 file, before anyone converts it: room, loss, and what is left of the outputs.

Each node is computed in float64 from the start, and in float32 with every result rounded to float16, as runtimes do
that compute inside a node in float32. What overflows only inside a node, where sums are held in float16 too, is told
apart.
What overflows goes on with the precision of float16 and its true size, so that what precision does behind it is seen as
well: Kokoro's running phase is beyond 65504 after a second, and its sine would be noise before that.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from kokoro_nb.inspection.node_judgement import relative_noise
from kokoro_nb.inspection.onnx_file import Computed, OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode
from kokoro_nb.inspection.rounding_limits import PRODUCTS, SUMS
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, computed, dtypes_of, widened
from kokoro_nb.inspection.value_types import Arrays, NodeIdentity, Several, Value, Values
from kokoro_nb.locate.local_error import peak_of
from kokoro_nb.traces.statistics import blockwise, largest

LARGEST = 65504.0
BITS = 11  # of a float16
NORMAL, SPLIT, FINE = 2.0**-14, 2.0 ** (53 - BITS) + 1, 1.5 * 2.0**28  # the first: from where it has all its bits
EXPONENTIALS = frozenset(("ReduceLogSumExp", "Softplus", "Mish"))
"""Operators that take an exponential inside, and are written so, unless a kernel takes care."""
MEANS = frozenset(("ReduceMean", "GlobalAveragePool"))
LOST = 0.01  # of a result: 40 dB
FURTHEST = 2.0**900  # of an exponential, and of what is rounded
_NORMS = "InstanceNormalization LayerNormalization GroupNormalization RMSNormalization ReduceL2 ReduceSumSquare"
NORMS = frozenset(_NORMS.split())
SUMMING = PRODUCTS | SUMS | NORMS | EXPONENTIALS | {"Softmax", "LogSoftmax"}
_ROOM = "headroom (bits)", "headroom of sums inside (bits)"
COLUMNS = "node", "operator", *_ROOM, "noise (of its result)", "noise of its input"


@dataclass(frozen=True)
class HalfPrecisionNode(NodeIdentity):
    """What float16 would do to one node.

    Attributes
    ----------
    headroom : float
        Bits between the largest value that it gives and 65504; negative where it overflows; infinite of zeros.
    inside : float
        The same of the largest sum that it forms inside: products, squares, running sums.
    noise : float
        Root mean square of the error with every node up to here in float16, over that of what is right; NaN where it
        overflows itself, 0 of no error.
    before : float
        The largest such noise of its inputs; of what overflowed that of its precision alone.
    """

    headroom: float
    inside: float
    noise: float
    before: float

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        return dict(zip(COLUMNS, astuple(self)[1:], strict=True))

    @property
    def overflows(self) -> bool:
        """Whether a value, or a sum inside, is beyond the range of float16."""
        return not (self.headroom >= 0 and self.inside >= 0)


class HalfPrecisionWatch:
    """Computes a file in float16 while its true values pass node by node, and keeps its figures.

    Of a file with floats of 16 bits it rounds no more than what is float16 there.

    Parameters
    ----------
    file : OnnxFile
        A file without random nodes, or with them pinned.
    inputs : mapping of str to numpy.ndarray
        Its inputs.
    """

    def __init__(self, file: OnnxFile, inputs: Arrays) -> None:
        self.file, self.change = file, _halved
        self.half: dict[str, Value] = {name: self.change(value) for name, value in inputs.items()}
        self.noise: dict[str, float] = {}
        self.found: list[HalfPrecisionNode] = []

    def see(self, node: OnnxNode, given: Several, true: Values, wide: Computed) -> None:
        """Take in a node, what it gives on the runtime, the true values, and what `OnnxFile.evaluated` has on those."""
        narrow = [str(dtype) for dtype in dtypes_of(given)]
        if self.change is _halved and {"float16", "bfloat16"} & {*narrow}:
            self.change = widened  # nothing before it was rounded
            self.half.update(true)
            self.noise.clear()
            self.found.clear()
        call, inputs, exact = wide
        if all(self._is_unchanged(name, true) for name in node.reads):
            results = exact
        elif (rounded := self.file.evaluated(node, self.half, self.change, np.float32)) is not None:
            results = rounded[2]
        else:
            return
        halves = [self.change is _halved or one == "float16" for one in narrow]
        halved = [_halved(one) if half else one for one, half in zip(results, halves, strict=False)]
        sizes = [[getattr(one, "shape", None) for one in values] for values in (halved, exact)]
        halved = halved if sizes[0] == sizes[1] else exact  # no runtime takes a length from float16
        before = float(np.max([self.noise.get(name, 0.0) for name in node.reads], initial=0.0))
        for name, right, value in zip(node.proto.output, exact, halved, strict=False):
            if name:
                self.half[name], self.noise[name] = value, relative_noise(value, right)
        if _is_float(exact[0]):
            room = _bits(exact[0])
            inside = _bits(_sums(call, inputs, exact)) if call.node.op_type in SUMMING and halves[0] else room
            loud = not largest(halved[0]) <= LARGEST  # which NaN is not, either
            loud = loud and bool((np.isfinite(exact[0]) & (np.abs(halved[0]) > LARGEST)).any())
            own = float("nan") if loud else self.noise[node.proto.output[0]]
            self.found.append(HalfPrecisionNode(node.index, node.key, node.operator, room, inside, own, before))

    def _is_unchanged(self, name: str, true: Values) -> bool:
        """Return whether a value that a node reads is no other in float16, because it is no float."""
        if name in self.half:
            return self.half[name] is true.get(name)
        return name in self.file.constants and self.file.constants[name].dtype.kind in "biu"


def _is_float(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size > 0


@np.errstate(over="ignore", invalid="ignore")
def _halved(value: Value) -> Value:
    """Return floats rounded to float16, in float32, those beyond its range to 11 bits; everything else as it is."""
    if isinstance(value, list):
        return [_halved(one) for one in value]
    wide = widened(value)
    return blockwise(_rounded, np.asarray(wide)).astype(np.float32) if _is_float(wide) else wide


def _rounded(wide: np.ndarray) -> np.ndarray:
    # Veltkamp's splitting leaves 11 bits, and a sum with 1.5 x 2^28 the multiples of 2^-24 (T. J. Dekker, 1971)
    rounded, size = wide * SPLIT, np.abs(wide)
    rounded = np.asarray(rounded - (rounded - wide))
    for where, other in ((size < NORMAL, (wide + FINE) - FINE), (~(size < FURTHEST), wide)):
        np.copyto(rounded, other, where=where)
    return rounded


def _bits(values: np.ndarray) -> float:
    """Return the bits between the largest finite one of these sizes and 65504; infinite if all are 0."""
    with np.errstate(divide="ignore"):
        return float(np.log2(LARGEST) - np.log2(peak_of(values)))


@np.errstate(over="ignore")
def _sums(call: OnnxCall, inputs: list[Value], exact: list[Value]) -> np.ndarray:
    """Return the sizes of the largest sums that a node of `SUMMING` forms inside; of products in float32."""
    kind = call.node.op_type
    if kind in MEANS:  # the sum, before it is divided
        return np.abs(exact[0]) * (np.size(inputs[0]) / np.maximum(np.size(exact[0]), 1))
    inputs = [widened(one) for one in inputs]
    if kind in PRODUCTS or kind in SUMS:
        return np.abs(computed(call, [np.abs(x) if _is_float(x) else x for x in inputs], np.float32)[0])
    if kind in NORMS:
        return np.square(inputs[0]).sum(axis=tuple(range(1 if inputs[0].ndim < 3 else 2, inputs[0].ndim)) or None)
    if kind in EXPONENTIALS:
        return np.minimum(np.exp(inputs[0]), FURTHEST)
    # of softmax: exponentials less the largest, added
    shifted = np.exp(inputs[0] - inputs[0].max(axis=call.get("axis", -1), keepdims=True))
    return np.asarray(shifted.sum(axis=call.get("axis", -1)))


def foreseen(nodes: tuple[HalfPrecisionNode, ...]) -> tuple[str, ...]:
    """Return in sentences what float16 would do to a file."""
    harmed = {
        "would overflow": [one for one in nodes if not one.headroom >= 0],
        "have sums inside that need float32": [one for one in nodes if one.headroom >= 0 and not one.inside >= 0],
    }
    known = [one for one in harmed.items() if one[1]]
    found = [f"In float16 {len(each):,} of {len(nodes):,} nodes {what}, first {each[0]}." for what, each in known]
    most = most_noise((one, one.noise, one.before) for one in nodes if np.isfinite(one.noise))
    return (*found, *(f"In float16 most noise would enter at {words}." for words, _, _ in most))


def most_noise(rows: Iterable[tuple[Any, float, float]]) -> list[tuple[str, Any, float]]:
    """Return where noise grows most, in words, as the node, and the noise of its input; nothing below 1 %.

    Each row has a node, and the noise of its result and of its input.
    """
    grown = [(noise - before, noise, before, node) for node, noise, before in rows if noise - before > 0.01]
    return [
        (f"{node}: {noise:.2%} of its result, after {before:.2%} of its input", node, before)
        for _, noise, before, node in sorted(grown, key=lambda row: -row[0])[:1]
    ]


def in_danger(nodes: tuple[HalfPrecisionNode, ...], n: int) -> tuple[HalfPrecisionNode, ...]:
    """Return the `n` nodes that float16 would harm most: first those that overflow, then by the noise that they add."""
    added = {one: one.before - one.noise for one in nodes}
    return tuple(sorted(nodes, key=lambda one: (not one.overflows, added[one] if np.isfinite(added[one]) else 0.0))[:n])
