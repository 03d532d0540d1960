"""What float16 would do to a float32 file, before anyone converts it: room, loss, and what is left of the outputs.

Each node is computed twice: in float64 from the start, and with every result rounded to float16, as runtimes do that
compute inside a node in float32. What overflows only inside a node, where sums are held in float16 too, is told apart.
What overflows goes on with the precision of float16 and its true size, so that what precision does behind it is seen as
well: Kokoro's running phase is beyond 65504 after a second, and its sine would be noise before that.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from kokoro_nb.inspection.file_run import FileRun
from kokoro_nb.inspection.judged_run import InspectionFinding
from kokoro_nb.inspection.node_judgement import relative_noise
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import freeing, last_readers, nodes_of
from kokoro_nb.inspection.rounding_limits import PRODUCTS, SUMS
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, computed, widened
from kokoro_nb.inspection.value_types import Arrays, Tell, Value
from kokoro_nb.inspection.whole_file import most_noise
from kokoro_nb.markup import number

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
_ROOM = "headroom (bits)", "headroom of sums inside (bits)"
COLUMNS = "node", "operator", *_ROOM, "noise (of its result)", "noise of its input"


@dataclass(frozen=True)
class HalfPrecisionNode:
    """What float16 would do to one node.

    Attributes
    ----------
    index : int
        Its place in the order of execution.
    key, operator : str
        Its id in Model Explorer and its operator.
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

    index: int
    key: str
    operator: str
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


def float16_foresight(
    file: OnnxFile, inputs: Arrays, tell: Tell = str, narrow: Collection[str] | None = None
) -> tuple[HalfPrecisionNode, ...]:
    """Compute a file in float64 and in float16.

    Parameters
    ----------
    file : OnnxFile
        A file without random nodes, or with them pinned.
    inputs : mapping of str to numpy.ndarray
        Its inputs.
    tell : callable
        Is given a line on how far it is.
    narrow : collection of str, optional
        The values that are float16 in the file, which alone are rounded; by default every float.

    Returns
    -------
    tuple of HalfPrecisionNode
        In the order of execution; nodes that give no floats, or whose inputs are not known, are left out.
    """
    nodes, change = nodes_of(file.model.graph), _halved if narrow is None else widened
    true: dict[str, Value] = {name: widened(value) for name, value in inputs.items()}
    half: dict[str, Value] = {name: change(value) for name, value in inputs.items()}
    noise: dict[str, float] = {}
    found = []
    for node in freeing(nodes, last_readers(nodes, set()), true, half):
        tell(f"{node.index} of {len(nodes)} nodes in float16")
        rounded, wide = file.evaluated(node, half, change), file.evaluated(node, true, widened)
        if rounded is None or wide is None:
            continue
        call, given, exact = wide
        results = zip(node.proto.output, rounded[2], strict=False)
        halved = [_halved(value) if narrow is None or name in narrow else value for name, value in results]
        sizes = [[getattr(one, "shape", None) for one in values] for values in (halved, exact)]
        halved = halved if sizes[0] == sizes[1] else exact  # no runtime takes a length from float16
        before = float(np.max([noise.get(name, 0.0) for name in node.reads], initial=0.0))
        for name, right, value in zip(node.proto.output, exact, halved, strict=False):
            if name:
                true[name], half[name], noise[name] = right, value, relative_noise(value, right)
        if _is_float(exact[0]):
            loud = bool((np.isfinite(exact[0]) & (np.abs(halved[0]) > LARGEST)).any())
            room = (_bits(np.abs(exact[0])), _bits(_sums(call, given, exact)))
            own = float("nan") if loud else noise[node.proto.output[0]]
            found.append(HalfPrecisionNode(node.index, node.key, node.operator, *room, own, before))
    return tuple(found)


def _is_float(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size > 0


@np.errstate(over="ignore", invalid="ignore")
def _halved(value: Value) -> Value:
    """Return floats rounded to float16 in float64, those beyond its range to its 11 bits; everything else as it is."""
    if isinstance(value, list):
        return [_halved(one) for one in value]
    wide = widened(value)
    if not isinstance(wide, np.ndarray) or wide.dtype.kind != "f":
        return wide
    # Veltkamp's splitting leaves 11 bits, and a sum with 1.5 x 2^28 the multiples of 2^-24 (T. J. Dekker, 1971)
    split, size = wide * SPLIT, np.abs(wide)
    return np.where(size < FURTHEST, np.where(size < NORMAL, (wide + FINE) - FINE, split - (split - wide)), wide)


def _bits(size: np.ndarray) -> float:
    """Return the bits between the largest finite one of these sizes and 65504; infinite if all are 0."""
    peak = float(np.max(size[np.isfinite(size)], initial=0.0))
    with np.errstate(divide="ignore"):
        return float(np.log2(LARGEST) - np.log2(peak))


def _sums(call: OnnxCall, inputs: list[Value], exact: list[Value]) -> np.ndarray:
    """Return the sizes of the largest sums that a node forms inside, in float64."""
    kind = call.node.op_type
    if kind in MEANS:  # the sum, before it is divided
        return np.abs(exact[0]) * (np.size(inputs[0]) / np.maximum(np.size(exact[0]), 1))
    if kind in PRODUCTS or kind in SUMS:
        return np.abs(computed(call, [np.abs(x) if _is_float(x) else x for x in inputs])[0])
    if kind in NORMS:
        axes = tuple(range(1 if inputs[0].ndim < 3 else 2, inputs[0].ndim)) or None
        return np.square(inputs[0]).sum(axis=axes)
    if kind in EXPONENTIALS:
        with np.errstate(over="ignore"):
            return np.minimum(np.exp(inputs[0]), FURTHEST)
    if kind in ("Softmax", "LogSoftmax"):  # exponentials less the largest, added
        shifted = np.exp(inputs[0] - inputs[0].max(axis=call.get("axis", -1), keepdims=True))
        return np.asarray(shifted.sum(axis=call.get("axis", -1)))
    return np.abs(exact[0])


def foreseen(nodes: tuple[HalfPrecisionNode, ...]) -> tuple[str, ...]:
    """Return in sentences what float16 would do to a file."""
    harmed = {
        "would overflow": [one for one in nodes if not one.headroom >= 0],
        "have sums inside that need float32": [one for one in nodes if one.headroom >= 0 and not one.inside >= 0],
    }
    found = [
        f"In float16 {len(several):,} of {len(nodes):,} nodes {what}, first {several[0].key} ({several[0].operator})."
        for what, several in harmed.items()
        if several
    ]
    most = most_noise((one, one.noise, one.before) for one in nodes if np.isfinite(one.noise))
    return (*found, f"In float16 most noise would enter at {most}.") if most else tuple(found)


def half_precision_findings(seen: FileRun, nodes: Sequence[HalfPrecisionNode]) -> Iterator[InspectionFinding]:
    """Yield what a runtime that computes in the file's own float16 makes wrong, though the one here does not.

    Parameters
    ----------
    seen : FileRun
        The file as it ran here.
    nodes : sequence of HalfPrecisionNode
        Of `float16_foresight` with the file's own types.
    """
    for one in nodes:
        if one.operator in MEANS and one.headroom >= 0 and not one.inside >= 0:
            words = f"The sum inside of {one.key} ({one.operator}) is {number(LARGEST / 2**one.inside)}"
            statement = (
                f"{words}, beyond {number(LARGEST)}, the largest float16: infinite where it is added in float16."
            )
            yield InspectionFinding.at(one, "precision", "precision", statement, "The runtime here adds in float32.")
    made = {name: node for node in seen.nodes for name in node.outputs}
    noises = {one.index: one.noise for one in nodes}
    ends = {name: noises.get(made[name].index, 0.0) for name in seen.outputs if name in made}
    lossy = next((one for one in nodes if one.noise > LOST and one.before <= 2.0**-BITS), None)
    shown = next((name for name, noise in ends.items() if noise > LOST), None)
    if lossy is None or shown is None:
        return
    givers = [made[name].key for name in seen.nodes[lossy.index].reads if name in made]
    given = f", which {', '.join(givers)} gives" if givers else ""
    level, limit = (number(-20 * np.log10(noise)) for noise in (ends[shown], LOST))
    statement = (
        f"{lossy.key} ({lossy.operator}) loses {lossy.noise:.2%} of its result to the rounding of its input to float16"
        f"{given}: where each node rounds to the file's types, the output '{shown}' is {level} dB above its error "
        f"(limit {limit} dB)."
    )
    proof = "The runtime here keeps float32 from one node to the next; one with kernels of float16 does not."
    yield InspectionFinding.at(lossy, "precision", "precision", statement, proof)


def in_danger(nodes: tuple[HalfPrecisionNode, ...], n: int) -> tuple[HalfPrecisionNode, ...]:
    """Return the `n` nodes that float16 would harm most: first those that overflow, then by the noise that they add."""
    added = {one: one.before - one.noise for one in nodes}
    return tuple(sorted(nodes, key=lambda one: (not one.overflows, added[one] if np.isfinite(added[one]) else 0.0))[:n])
