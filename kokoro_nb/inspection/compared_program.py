"""A program of any format as a comparison sees it: its nodes, what they read and give, and every value in float64."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kokoro_nb.backends.adopted import is_folded
from kokoro_nb.backends.called_operators import user_results
from kokoro_nb.backends.exported import Exported
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, freeing, last_readers, nodes_of
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, widened
from kokoro_nb.inspection.value_types import Value
from kokoro_nb.inspection.whole_file import named_constants
from kokoro_nb.locate.culprit import Name
from kokoro_nb.markup import number
from kokoro_nb.traces.operators import CONSTANT, Operator
from kokoro_nb.traces.parity import of_peak

Observe = Callable[[str, Value], object]
ROUNDING = ("QuantizeLinear", "DynamicQuantizeLinear")
PLAIN = (bool, int, float, str, list, tuple)


@dataclass(frozen=True, eq=False)
class ComparedNode:
    """One node.

    Attributes
    ----------
    index : int
        Its place in the order of execution.
    key : str
        Its id in Model Explorer.
    operator : str
        The operator, as its format calls it.
    reads, outputs : tuple of str
        Names of the values that it reads, constants not among them, and of those that it gives.
    constants : tuple
        For each of its arguments in order the name and the array of a constant; None for any other argument.
    attributes : dict
        Numbers and texts that belong to it, by name.
    source : str
        File and line of the code that calls it; empty where the format does not say.
    rounds : bool
        Whether what it gives is rounded to integers of a few bits, or made of such integers.
    """

    index: int
    key: str
    operator: str
    reads: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[tuple[str, np.ndarray] | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    rounds: bool = False


@dataclass(frozen=True, eq=False)
class ComparedProgram:
    """A program.

    Attributes
    ----------
    label : str
        What it is called in a sentence.
    inputs, outputs : tuple of str
        Names, in order; the outputs end with the new values of its state.
    nodes : tuple of ComparedNode
        In the order of execution.
    compute : callable
        ``compute(inputs, observe)`` calls `observe` with the name and the array of each value that follows from the
        inputs, themselves included, floats in float64, in the order of execution.
    drawing : str
        A node that draws at random; empty if there is none.
    """

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[ComparedNode, ...]
    compute: Callable[[Mapping[str, np.ndarray], Observe], None]
    drawing: str = ""


def of_onnx(file: OnnxFile) -> ComparedProgram:
    """Return an ONNX file for a comparison; values of nodes without a definition are left out."""
    nodes = nodes_of(file.model.graph)
    known = named_constants(file)
    rounded = {node.outputs[0]: node.reads[0] for node in nodes if node.proto.op_type == ROUNDING[0]}

    def compute(inputs: Mapping[str, np.ndarray], observe: Observe) -> None:
        values: dict[str, Value] = {name: widened(value) for name, value in inputs.items()}
        for name in inputs:
            observe(name, values[name])
        for node in freeing(nodes, last_readers(nodes, set()), values):
            _, _, results = file.evaluated(node, values) or ((), (), ())
            for name, value in zip(node.proto.output, results, strict=False):
                if name:
                    values[name] = value
                    observe(name, value)

    return ComparedProgram(
        file.path.name,
        tuple(value.name for value in file.inputs),
        tuple(value.name for value in file.model.graph.output),
        tuple(_of_node(node, known, rounded) for node in nodes),
        compute,
        next((node.key for node in nodes if node.is_random), ""),
    )


def _of_node(node: OnnxNode, known: Mapping[str, np.ndarray], rounded: Mapping[str, str]) -> ComparedNode:
    attributes = {name: one for name, one in OnnxCall(node.proto, {}).attributes.items() if isinstance(one, PLAIN)}
    constants = tuple((name, known[name]) if name in known else None for name in node.proto.input)
    reads = tuple(rounded.get(name, name) for name in node.reads if name not in known)
    rounds = node.proto.op_type in ROUNDING or any(name in rounded for name in node.reads)
    return ComparedNode(node.index, node.key, node.operator, reads, node.outputs, constants, attributes, rounds=rounds)


def of_exported(exported: Exported, label: str, keys: Mapping[str, str] | None = None) -> ComparedProgram:
    """Return a PyTorch program for a comparison; a node's key is its operator's name, or what `keys` has for that."""
    specification = exported.specification
    operators = specification.operators
    drawing = next((one.name for one in operators if "rand" in one.op or "dropout" in one.op), "")

    def compute(inputs: Mapping[str, np.ndarray], observe: Observe) -> None:
        for name, value in inputs.items():
            observe(name, widened(value))

        def seen(name: str, result: Any) -> None:
            observe(name, result.numpy())

        specification.run(inputs, seen, double=True)

    nodes = tuple(
        ComparedNode(
            index,
            (keys or {}).get(one.name, one.name),
            one.op,
            tuple(name.removeprefix("input:") for name in one.inputs if not name.startswith(CONSTANT)),
            (one.name,),
            _constants(exported, one),
            specification.numbers(one.name),
            source=specification.source_line(one.name),
        )
        for index, one in enumerate(operators)
    )
    results = user_results(specification.program)
    outputs = [specification.source_of(node) or "" for node in results] + list(
        filter(None, specification.state.values())
    )
    return ComparedProgram(label, tuple(spec.name for spec in exported.inputs), tuple(outputs), nodes, compute, drawing)


def _constants(exported: Exported, operator: Operator) -> tuple[tuple[str, np.ndarray], ...]:
    """Return the constants of an operator, tensors and then numbers."""
    program = exported.specification.program
    found = []
    for name in (one.removeprefix(CONSTANT) for one in operator.inputs if one.startswith(CONSTANT)):
        value = program.state_dict.get(name)
        found.append((name, (program.constants[name] if value is None else value).detach().numpy()))
    numbers = exported.specification.numbers(operator.name)
    found += [(name, np.asarray(value)) for name, value in numbers.items() if isinstance(value, float)]
    return tuple(found)


CHANGED = 2.0**-9  # of a constant: two roundings to float16
UNCHANGED = 2.0**-20  # the same of float32
WIDE = frozenset(("float32", "float64", "int32", "int64", "bool"))
ROUNDED = 1 / 14  # of its peak: what rounding to 4 bits does to it
LARGE = 8  # elements of a constant that is no number


def same_constants(reference: ComparedProgram, candidate: ComparedProgram) -> bool:
    """Return whether no constant of `candidate` is of few bits, or one of the reference rounded to few.

    One that is folded has its like nowhere.
    """
    own, theirs = (
        [one[1] for node in program.nodes for one in node.constants if one is not None]
        for program in (candidate, reference)
    )
    known: dict[int, list[np.ndarray]] = {}
    for array in theirs:
        known.setdefault(array.size, []).append(_measures(array))
    for array in own:
        if array.dtype.name not in WIDE:
            return False
        apart = [float(np.max(np.abs(_measures(array) / one - 1))) for one in known.get(array.size, [])]
        if array.size >= LARGE and UNCHANGED < np.min(apart, initial=np.inf) <= ROUNDED:
            return False
    return True


def _measures(array: np.ndarray) -> np.ndarray:
    """Return the ends and the norm of a constant, none of them 0."""
    found = np.array([array.min(initial=0), array.max(initial=0), np.linalg.norm(array.astype(np.float64))])
    return np.where(found == 0, np.finfo(np.float64).tiny, found)


def changed_parameters(
    reference: ComparedProgram, candidate: ComparedProgram
) -> Iterator[tuple[ComparedNode, ComparedNode]]:
    """Yield the nodes that read constants alone, and not quite those of their counterpart, each with that.

    Such as integer weights whose scale is another: what they give has no inputs by which it could be paired. The
    counterpart is of the same operator, and its largest constant is the same. Where there is one whose constants are
    all the same, nothing is changed. Of nodes whose largest constant the other program does not have, and that are
    left over on both sides, those of one operator and shape are counterparts in the order in which they stand.
    """
    there = [one for one in reference.nodes if not one.reads and any(one.constants)]
    here = [one for one in candidate.nodes if not one.reads and any(one.constants)]
    alike: dict[tuple[str, bytes], list[ComparedNode]] = {}
    for other in there:
        alike.setdefault((other.operator, _largest(other).tobytes()), []).append(other)
    left: dict[tuple[str, tuple[int, ...]], list[ComparedNode]] = {}
    own = {(node.operator, _largest(node).tobytes()) for node in here}
    for other in there:
        if (other.operator, _largest(other).tobytes()) not in own:
            left.setdefault((other.operator, _largest(other).shape), []).append(other)
    for node in here:
        others = alike.get((node.operator, _largest(node).tobytes()), [])
        if not others:
            others = left.get((node.operator, _largest(node).shape), [])[:1]
            del left.get((node.operator, _largest(node).shape), [])[:1]
        if others and all(next(differing(one, node), None) is not None for one in others):
            yield node, others[0]


def _largest(node: ComparedNode) -> np.ndarray:
    arrays = [one[1] for one in node.constants if one is not None]
    return sorted(arrays, key=lambda array: array.size)[-1]


def same_weight(other: ComparedNode, node: ComparedNode) -> bool:
    """Return whether the largest constant of a node is the other's, in any order."""
    if not all(any(one is not None for one in each.constants) for each in (other, node)):
        return False
    theirs, mine = _largest(other), _largest(node)
    return mine.size == theirs.size >= LARGE and not _changed(_sorted(mine), _sorted(theirs))


def _both(other: ComparedNode, node: ComparedNode) -> Iterator[tuple[str, np.ndarray, str, np.ndarray]]:
    """Yield name and values of each constant of the one and of the other, argument by argument, in float64."""
    for theirs, ours in zip(other.constants, node.constants, strict=False):
        if theirs is not None and ours is not None:
            yield theirs[0], theirs[1].astype(np.float64), ours[0], ours[1].astype(np.float64)


def differing(other: ComparedNode, node: ComparedNode) -> Iterator[tuple[Name, str]]:
    """Say which constants differ, argument by argument, and then which attributes, with what each is a case of."""
    for there, right, here, value in _both(other, node):
        if right.shape != value.shape:
            yield "changed constant", f"the constant '{here}' has the shape {value.shape}, there {right.shape}"
            continue
        count = _changed(value, right)
        if count and not _changed(_sorted(value), _sorted(right)):
            yield "changed layout or shift", f"the constant '{here}' has its values in another order"
        elif count:
            place = np.unravel_index(int(np.argmax(np.abs(value - right))), right.shape)
            values = f"{number(value[place])} in place of {number(right[place])}{_called(there, here)}"
            words = f"the constant '{here}' is {values} ({count:,} of {value.size:,} values differ)"
            yield "changed constant", words
    theirs, ours = other.attributes, node.attributes
    for name in sorted(set(theirs) | set(ours)):
        if theirs.get(name) != ours.get(name):
            words = f"the attribute {name} is {ours.get(name, 'not set')} in place of {theirs.get(name, 'not set')}"
            yield "operator lowered as another", words


def largest_change(other: ComparedNode, node: ComparedNode) -> float:
    """Return by how much a constant differs at most, as a share of its peak; infinite where a shape differs."""
    shares = [0.0]
    for _, right, _, value in _both(other, node):
        if right.shape != value.shape:
            return float("inf")
        shares.append(of_peak(np.abs(value - right).max(initial=0.0), np.abs(right).max(initial=0.0)))
    return float(np.max(shares))


def foreign_constants(
    other: ComparedNode, node: ComparedNode, region: Sequence[ComparedNode], there: Sequence[ComparedNode]
) -> Iterator[str]:
    """Say which constants of a node the nodes of the reference, `there`, do not have in any order.

    They stand for one of that size of the other node, which nothing else of the region has: that was only moved. Where
    a norm was folded into a constant, neither it nor one beside it is comparable.
    """
    near = [_sorted(one[1]) for each in region for one in each.constants if one is not None and each is not node]
    known = [one[1] for each in there for one in each.constants if one is not None]
    theirs = [(one[0], _sorted(one[1])) for one in other.constants if one is not None]
    theirs = [
        one for one in theirs if not any(_changed(each, one[1]) == 0 for each in near if each.size == one[1].size)
    ]
    mine = [one for one in node.constants if one is not None and one[1].dtype.kind == "f" and one[1].size > 1]
    weights = [one[1] for one in other.constants if one is not None]
    if any(is_folded(ours, one) and not _is_multiple(ours, one) for _, ours in mine for one in weights):
        return
    for ours in mine:  # a number may be written as two factors there
        value = _sorted(ours[1])
        if any(_changed(value, _sorted(one)) == 0 for one in known if one.size == value.size):
            continue
        like = [one for one in theirs if one[1].size == value.size]
        counts = np.array([_changed(value, one) for _, one in like])
        if counts.all() and counts.size:
            name, one = like[int(np.argmin(counts))]
            place = int(np.argmax(np.abs(value - one)))
            values = f"{number(value[place])} in place of {number(one[place])}{_called(name, ours[0])}"
            share = f"({counts.min():,} of {value.size:,} values differ)"
            yield f"the constant '{ours[0]}' is {values}, both in the order of size {share}"


def _is_multiple(array: np.ndarray, other: np.ndarray) -> bool:
    """Return whether an array has the elements of another times one number, in any order."""
    mine, theirs = _sorted(np.abs(array)), _sorted(np.abs(other))
    return bool(np.allclose(mine * np.linalg.norm(theirs), theirs * np.linalg.norm(mine), rtol=CHANGED, atol=0))


def _called(there: str, here: str) -> str:
    return "" if there == here else f" of '{there}'"


def _sorted(array: np.ndarray) -> np.ndarray:
    return np.sort(array.astype(np.float64), axis=None)


def _changed(value: np.ndarray, right: np.ndarray) -> int:
    """Return how many values differ by more than rounding of a constant."""
    return int((np.abs(value - right) > CHANGED * np.abs(right)).sum())
