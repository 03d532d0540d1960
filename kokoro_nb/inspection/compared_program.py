"""A program of any format as a comparison sees it: its nodes, what they read and give, and every value in float64."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

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
        Whether what it gives is rounded to integers of a few bits.
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
    open_axes : tuple
        Name and axis of each input whose length is open.
    """

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[ComparedNode, ...]
    compute: Callable[[Mapping[str, np.ndarray], Observe], None]
    drawing: str = ""
    open_axes: tuple[tuple[str, int], ...] = ()


def of_onnx(file: OnnxFile) -> ComparedProgram:
    """Return an ONNX file for a comparison; values of nodes without a definition are left out."""
    nodes = nodes_of(file.model.graph)
    known = named_constants(file)

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
        tuple(_of_node(node, known) for node in nodes),
        compute,
        next((node.key for node in nodes if node.is_random), ""),
        tuple(
            (value.name, axis)
            for value in file.inputs
            for axis, size in enumerate(value.type.tensor_type.shape.dim)
            if size.dim_param
        ),
    )


def _of_node(node: OnnxNode, known: Mapping[str, np.ndarray]) -> ComparedNode:
    attributes = {name: one for name, one in OnnxCall(node.proto, {}).attributes.items() if isinstance(one, PLAIN)}
    constants = tuple((name, known[name]) if name in known else None for name in node.proto.input)
    reads = tuple(name for name in node.reads if name not in known)
    rounds = node.proto.op_type in ROUNDING
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
        if count:
            place = np.unravel_index(int(np.argmax(np.abs(value - right))), right.shape)
            values = f"{number(value[place])} in place of {number(right[place])}{called(there, here)}"
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


def foreign_constants(other: ComparedNode, node: ComparedNode, region: Sequence[ComparedNode]) -> Iterator[str]:
    """Say which constants of a node the other one has not in any order, though it has one of that size.

    What the other one has and another node of the region has as well was only moved.
    """
    near = [_sorted(one) for each in region for one in each.constants if one is not None and each is not node]
    theirs = [(one[0], _sorted(one)) for one in other.constants if one is not None]
    theirs = [
        one for one in theirs if not any(_changed(each, one[1]) == 0 for each in near if each.size == one[1].size)
    ]
    for ours in node.constants:
        if ours is None or ours[1].dtype.kind != "f" or ours[1].size == 1:
            continue  # a number may be written as two factors there
        value = _sorted(ours)
        like = [one for one in theirs if one[1].size == value.size]
        counts = np.array([_changed(value, one) for _, one in like])
        if counts.all() and counts.size:
            name, one = like[int(np.argmin(counts))]
            place = int(np.argmax(np.abs(value - one)))
            there = called(name, ours[0])
            values = f"{number(value[place])} in place of {number(one[place])}{there}, both in the order of size"
            yield f"the constant '{ours[0]}' is {values} ({counts.min():,} of {value.size:,} values differ)"


def other_number(other: ComparedNode, node: ComparedNode, factor: float) -> tuple[str, float, str, float] | None:
    """Return name and value of a constant of one element of each, whose quotient is the factor between the results."""
    theirs, ours = (
        [(name, float(array.reshape(()))) for name, array in filter(None, one.constants) if array.size == 1]
        for one in (other, node)
    )
    for (there, right), (here, value) in product(theirs, ours):
        quotient = value / right if right else 0.0
        if quotient and min(abs(factor / quotient - 1), abs(factor * quotient - 1)) <= CHANGED:
            return there, right, here, value
    return None


def called(there: str, here: str) -> str:
    """Return the name of the other one's constant, where it has another."""
    return "" if there == here else f" of '{there}'"


def _sorted(constant: tuple[str, np.ndarray]) -> np.ndarray:
    return np.sort(constant[1].astype(np.float64), axis=None)


def _changed(value: np.ndarray, right: np.ndarray) -> int:
    """Return how many values differ by more than rounding of a constant."""
    return int((np.abs(value - right) > CHANGED * np.abs(right)).sum())
