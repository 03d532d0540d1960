"""Two ONNX files on the same inputs: values are paired by what they are, and the first node that parts is named.

Both are computed in float64 by their own definitions, so that no runtime is in between. Names do not count, nor does
the order of the elements: a value is known by its size and by what its elements are, sorted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, last_readers, nodes_of
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, Value, dtypes_of, widened
from kokoro_nb.inspection.semantics.operator_semantics import NotDefined, computed
from kokoro_nb.inspection.whole_file import named_constants
from kokoro_nb.markup import number

POINTS = 128  # of the sorted elements, by which a value is known
APART = 0.01  # of its root mean square: what rounding of constants to 16 bits does to a value is below it
TIMES = 20.0  # how much further apart than what went into it a result must be
SAME = 1e-6  # of the root mean square: two files in float64 that mean the same


@dataclass(frozen=True, eq=False)
class ValueSketch:
    """What a value is known by: how many elements, and some of them in the order of size, for each set of inputs."""

    size: int
    points: np.ndarray

    def distance(self, other: "ValueSketch") -> float:
        """Return the largest difference of these, of the root mean square of `other`; infinite of another size."""
        if self.size != other.size or self.points.shape != other.points.shape:
            return float("inf")
        finite = np.isfinite(other.points)
        if (finite != np.isfinite(self.points)).any():
            return float("inf")
        apart = np.abs(self.points - other.points)[finite].max(initial=0.0)
        level = np.sqrt(np.square(other.points[finite]).mean()) if finite.any() else 0.0
        return 0.0 if apart == 0 else float(apart / level) if level else float("inf")


def sketches(file: OnnxFile, inputs: Sequence[Mapping[str, np.ndarray]]) -> dict[str, ValueSketch]:
    """Compute a file in float64 and return what each of its floats is known by, in the order of execution."""
    parts: dict[str, list[tuple[int, np.ndarray]]] = {}
    nodes = nodes_of(file.model.graph)
    freed = last_readers(nodes, set())
    for one in inputs:
        values: dict[str, Value] = {name: widened(value) for name, value in one.items()}
        for name, value in values.items():
            _note(parts, name, value)
        for node in nodes:
            if any(name not in values and name not in file.constants for name in node.reads):
                continue
            outer = {name: values[name] if name in values else file.constants[name] for name in node.reads}
            given = [outer[name] if name else None for name in node.proto.input]
            try:
                results = computed(OnnxCall(node.proto, file.opsets, dtypes_of(given), outer), given)
            except NotDefined:
                continue
            for name, value in zip(node.proto.output, results, strict=False):
                if name:
                    values[name] = value
                    _note(parts, name, value)
            for name in freed.get(node.index, ()):
                values.pop(name, None)
    whole = {name: each for name, each in parts.items() if len(each) == len(inputs)}
    return {name: ValueSketch(each[0][0], np.concatenate([p for _, p in each])) for name, each in whole.items()}


def _note(parts: dict[str, list[tuple[int, np.ndarray]]], name: str, value: Value) -> None:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return
    ordered = np.sort(value, axis=None)
    places = np.linspace(0, ordered.size - 1, POINTS).round().astype(int)
    parts.setdefault(name, []).append((ordered.size, ordered[places]))


def same_inputs(reference: OnnxFile, file: OnnxFile, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return inputs of `file` under the names of `reference`: by name if it has the same, else in order.

    Raises
    ------
    InputError
        If the files do not take the same number of inputs.
    """
    names = [value.name for value in reference.inputs]
    if set(names) == set(inputs):
        return dict(inputs)
    if len(names) != len(inputs):
        raise InputError(
            f"{reference.path} takes {len(names)} inputs, {file.path} {len(inputs)}; they cannot be compared."
        )
    return dict(zip(names, inputs.values(), strict=True))


def first_that_parts(
    reference: OnnxFile, file: OnnxFile, inputs: Sequence[Mapping[str, np.ndarray]]
) -> tuple[InspectionFinding | None, str]:
    """Name the first node of `file` whose result the reference does not have although it has what went into it.

    Parameters
    ----------
    reference, file : OnnxFile
        The files.
    inputs : sequence of mapping
        Inputs of `file`; three sets or more, so that no two values are alike by chance.

    Returns
    -------
    InspectionFinding or None
        The node; None if every result of `file` is in the reference.
    str
        How many values were paired, in a sentence.

    Raises
    ------
    InputError
        If a file draws at random.
    """
    drawing = next(
        (node.key for one in (reference, file) for node in nodes_of(one.model.graph) if node.is_random), None
    )
    if drawing:
        raise InputError(
            f"{drawing} draws at random, so that two files cannot be compared; give the noise as an input."
        )
    known = sketches(reference, [same_inputs(reference, file, one) for one in inputs])
    own = sketches(file, inputs)
    pairs: dict[str, tuple[str, float]] = {}
    for name, sketch in own.items():
        near = min(
            ((other, sketch.distance(each)) for other, each in known.items()), key=lambda p: p[1], default=("", np.inf)
        )
        pairs[name] = (near[0], float(near[1]))
    paired = sum(apart <= APART for _, apart in pairs.values())
    told = f"{paired:,} of {len(own):,} values of {file.path.name} are in {reference.path.name} too."
    for node in nodes_of(file.model.graph):
        read = [pairs[name][1] for name in node.reads if name in pairs]
        given = [name for name in node.outputs if name in pairs]
        if not given or not read or any(apart > APART for apart in read):
            continue  # of what is made of integers alone it is not known whether they are the same
        apart = pairs[given[0]][1]
        before = float(np.max(read, initial=SAME))
        if apart > APART and apart > TIMES * before:
            return _parted(reference, file, node, given[0], pairs, known, own), told
    return None, told


def _parted(
    reference: OnnxFile,
    file: OnnxFile,
    node: OnnxNode,
    name: str,
    pairs: Mapping[str, tuple[str, float]],
    known: Mapping[str, ValueSketch],
    own: Mapping[str, ValueSketch],
) -> InspectionFinding:
    """Say how the node differs from the one of the reference that reads the same."""
    read = {pairs[one][0] for one in node.reads if one in pairs}
    others = [one for one in nodes_of(reference.model.graph) if read & set(one.reads) and set(one.outputs) & set(known)]
    others.sort(key=lambda one: (one.proto.op_type != node.proto.op_type, -len(read & set(one.reads))))
    where = f"{node.key} ({node.operator}) is the first node whose result {reference.path.name} does not have"
    proof = ["Both files were computed in float64, and what goes into the node is in both."]
    if not others or others[0].proto.op_type != node.proto.op_type:
        statement = f"{where}: no {node.operator} there reads the same."
        return InspectionFinding("structure", "file", statement, node.key, node.operator, node.index, tuple(proof))
    other = others[0]
    right = known[next(one for one in other.outputs if one in known)]
    how = [*_constants(reference, file, other, node), *_attributes(other, node), *_scaled(own[name], right)]
    proof.append(f"Its counterpart there is {other.key}.")
    if not how:
        apart = np.max([pairs[one][1] for one in node.reads if one in pairs])
        statement = f"{where}, though operator, constants and attributes are the same."
        proof.append(f"What goes into it is {number(apart)} of its root mean square apart: it makes that large.")
        return InspectionFinding("precision", "precision", statement, node.key, node.operator, node.index, tuple(proof))
    statement = f"{where}: {'; '.join(how)}."
    return InspectionFinding("structure", "file", statement, node.key, node.operator, node.index, tuple(proof))


def _constants(reference: OnnxFile, file: OnnxFile, other: OnnxNode, node: OnnxNode) -> list[str]:
    there, here = named_constants(reference), named_constants(file)
    found = []
    for theirs, ours in zip(other.proto.input, node.proto.input, strict=False):
        if theirs not in there or ours not in here:
            continue
        right, value = there[theirs].astype(np.float64), here[ours].astype(np.float64)
        if right.shape != value.shape:
            found.append(f"the constant '{ours}' has the shape {value.shape}, there {right.shape}")
            continue
        apart = np.abs(value - right) > 2.0**-9 * np.abs(right)
        if apart.any():
            place = np.unravel_index(int(np.argmax(np.abs(value - right))), right.shape)
            values = f"{number(value[place])} in place of {number(right[place])}"
            found.append(f"the constant '{ours}' is {values} ({int(apart.sum()):,} of {apart.size:,} values differ)")
    return found


def _attributes(other: OnnxNode, node: OnnxNode) -> list[str]:
    theirs, ours = (OnnxCall(one.proto, {}).attributes for one in (other, node))
    plain = (int, float, str, list)
    return [
        f"the attribute {name} is {ours.get(name, 'not set')} in place of {theirs.get(name, 'not set')}"
        for name in sorted(set(theirs) | set(ours))
        if theirs.get(name) != ours.get(name) and isinstance(ours.get(name, theirs.get(name)), plain)
    ]


def _scaled(value: ValueSketch, right: ValueSketch) -> list[str]:
    """Say so if the value is the right one times a number, or plus one."""
    if value.size != right.size or not (np.isfinite(value.points).all() and np.isfinite(right.points).all()):
        return []
    level = float(np.sqrt(np.square(right.points).mean()))
    factor = float(value.points @ right.points / (right.points @ right.points)) if level else 0.0
    if level and np.abs(value.points - factor * right.points).max() <= 1e-3 * level * abs(factor):
        return [f"its result is exactly {number(factor)} times what it is there"]
    shift = float((value.points - right.points).mean())
    if level and np.abs(value.points - right.points - shift).max() <= 1e-3 * abs(shift):
        return [f"its result is what it is there plus {number(shift)}"]
    return []
