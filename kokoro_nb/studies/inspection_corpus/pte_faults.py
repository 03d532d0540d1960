"""Faults that are planted in a program for ExecuTorch: in its instructions, its constants, or a delegate's payload."""

import copy
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.inspection.formats.pte_file import PteFile
from kokoro_nb.inspection.formats.pte_instructions import DTYPES, Step
from kokoro_nb.inspection.formats.xnnpack_delegate import XnnDelegate
from kokoro_nb.inspection.formats.xnnpack_graph import XnnGraph, XnnNode, flat_graph
from kokoro_nb.inspection.formats.xnnpack_semantics import MOVING
from kokoro_nb.studies.inspection_corpus.graph_faults import LOUDER

NUMBERS = {"negative_slope": 3.0, "eps": None}
NARROWER = 16.0
ALIGNED = 16  # bytes of memory


class EditedProgram:
    """A program on its way to being changed.

    Parameters
    ----------
    path : path
        A ``.pte``.
    """

    def __init__(self, path: Path) -> None:
        with quietly():
            from executorch.exir._serialize._program import deserialize_pte_binary

            self.whole = deserialize_pte_binary(path.read_bytes())
        self.read = PteFile.read(path)
        self.program = self.whole.program
        self.plan = self.program.execution_plan[0]
        self.steps = self.read.instructions.steps

    def save(self, path: Path) -> None:
        """Write it."""
        with quietly():
            from executorch.exir._serialize._program import serialize_pte_binary

            path.write_bytes(bytes(serialize_pte_binary(self.whole, extract_delegate_segments=True)))

    def key(self, number: int) -> str:
        """Return the id of an instruction."""
        return f"{self.plan.name}_0_{number}"

    def args(self, step: Step) -> list[int]:
        """Return what an instruction is called with, to be changed."""
        return list(self.plan.chains[0].instructions[step.number].instr_args.args)

    def value(self, held: Any) -> int:
        """Add a value, and return its number."""
        from executorch.exir.schema import EValue

        self.plan.values.append(EValue(held))
        return len(self.plan.values) - 1

    def tensor(self, like: int, dtype: str) -> int:
        """Add a tensor of the shape of another, in memory of its own; return its number."""
        from executorch.exir.schema import ScalarType

        made = copy.deepcopy(self.plan.values[like].val)
        made.scalar_type = ScalarType[dtype]
        place, sizes = made.allocation_info, self.plan.non_const_buffer_sizes
        start = -(-sizes[place.memory_id] // ALIGNED) * ALIGNED
        place.memory_offset_low, place.memory_offset_high = start & 0xFFFFFFFF, start >> 32
        sizes[place.memory_id] = start + int(np.prod(made.sizes, dtype=int)) * np.dtype(DTYPES[dtype]).itemsize
        return self.value(made)

    def call(self, name: str, overload: str, *args: int) -> Any:
        """Return an instruction that calls an operator; the last argument is what it writes to."""
        from executorch.exir.schema import Instruction, KernelCall, Operator

        known = [(one.name, one.overload) for one in self.plan.operators]
        if (name, overload) not in known:
            self.plan.operators.append(Operator(name=name, overload=overload))
            known.append((name, overload))
        return Instruction(KernelCall(op_index=known.index((name, overload)), args=[*args, args[-1]]))

    def graphs(self) -> Iterator[tuple[Step, XnnGraph]]:
        """Yield the delegates with what they compute."""
        for step in self.steps:
            if isinstance(step.operator, XnnDelegate):
                yield step, step.operator.graph

    def payload(self, step: Step) -> Any:
        """Return where the payload of a delegate is held."""
        call = self.plan.chains[0].instructions[step.number].instr_args
        return self.program.backend_delegate_data[self.plan.delegates[call.delegate_index].processed.index]

    def flat_values(self, step: Step) -> tuple[int, dict[int, Any], list[Any], list[Any]]:
        """Return where a payload's table begins, its values by id, its nodes and its constants."""
        begin, table = flat_graph(bytes(self.payload(step).data))
        outer = [one.values["xvalue_union"] for one in table.get("xvalues", [])]
        values = {one.get("tensor_value", one).get("id_out"): one for one in outer}
        return begin, values, table.get("xnodes", []), table.get("constant_data", [])

    def patch(self, step: Step, place: int, form: str, value: float) -> None:
        """Write another number into a payload."""
        held = self.payload(step)
        data = bytearray(bytes(held.data))
        struct.pack_into(f"<{form}", data, place, value)
        held.data = bytes(data)

    def named(self, name: str) -> np.ndarray:
        """Return the bytes that delegates find by a name, as a copy."""
        held = self.whole.named_data
        return np.frombuffer(bytes(held.buffers[held.pte_data[name].buffer_index]), np.uint8).copy()

    def put_named(self, name: str, array: np.ndarray) -> None:
        """Write them."""
        held = self.whole.named_data
        held.buffers[held.pte_data[name].buffer_index] = array.tobytes()


def plant_pte(healthy: Path, path: Path, kind: str, draw: np.random.Generator) -> str:
    """Write the file with a fault of this kind; return the node that has to be named, or an empty text."""
    program = EditedProgram(healthy)
    key = _KINDS[kind](program, draw) if kind in _KINDS else ""
    if key:
        program.save(path)
    return key


Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _weights(change: Change) -> Callable[[EditedProgram, np.random.Generator], str]:
    """Return what changes float constants, or a filter inside of a delegate, that one node alone reads."""

    def plant(program: EditedProgram, draw: np.random.Generator) -> str:
        places = [*_stored(program), *_filters(program)]
        if not places:
            return ""
        key, array, put = places[int(draw.integers(len(places)))]
        put(np.ascontiguousarray(change(array, draw)))
        return key

    return plant


Place = tuple[str, np.ndarray, Callable[[np.ndarray], None]]


def _stored(program: EditedProgram) -> Iterator[Place]:
    instructions, held = program.read.instructions, program.program.constant_buffer
    reads = [value for step in program.steps for value in step.reads]
    for step in program.steps:
        for value in step.reads:
            array = instructions.stored(value)
            if (
                array is None
                or array.dtype != np.float32
                or array.ndim < 2
                or reads.count(value) > 1
                or step.is_delegate
            ):
                continue
            order = list(instructions.tensor(value).dim_order)
            index = instructions.tensor(value).data_buffer_idx

            def put(changed: np.ndarray, index: int = index, order: list[int] = order) -> None:
                held[index].storage = np.ascontiguousarray(changed.transpose(order)).tobytes()

            yield program.key(step.number), array, put


def _filters(program: EditedProgram) -> Iterator[Place]:
    for step, graph in program.graphs():
        _, values, _, constants = program.flat_values(step)
        read = [one for node in graph.nodes for one in node.reads]
        for node in graph.nodes:
            for number in node.reads[1:2]:
                value = graph.values.get(number)
                if value is None or value.data is None or value.data.ndim < 2 or read.count(number) > 1:
                    continue
                table = values[number]
                index = table.get("tensor_value", table).get("constant_buffer_idx")
                name = constants[index].get("named_key", "")
                if name and value.data.dtype in (np.float32, np.int8):

                    def put(changed: np.ndarray, name: str = name) -> None:
                        program.put_named(name, changed)

                    yield f"{program.key(step.number)}/{node.index}", value.data, put


def _louder(array: np.ndarray, _draw: np.random.Generator) -> np.ndarray:
    if array.dtype == np.int8:
        return np.clip(np.round(array * np.float32(LOUDER)), -127, 127).astype(np.int8)
    return array * np.float32(LOUDER)


def _turned(array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    changed = np.maximum(array, -127) if array.dtype == np.int8 else array.copy()
    changed[int(draw.integers(len(array)))] *= -1
    return changed


def _attribute(program: EditedProgram, draw: np.random.Generator) -> str:
    from executorch.exir.schema import Double

    places: list[tuple[str, Callable[[], None]]] = []
    for step in program.steps:
        for name, value in step.arguments.items():
            if name in NUMBERS and type(program.plan.values[value].val).__name__ == "Double":
                old, factor = float(program.plan.values[value].val.double_val), NUMBERS[name]

                def put(
                    step: Step = step, value: int = value, new: float = 0.5 if factor is None else old * factor
                ) -> None:
                    call = program.plan.chains[0].instructions[step.number].instr_args
                    call.args = [program.value(Double(new)) if one == value else one for one in call.args]

                places.append((program.key(step.number), put))
    for step, graph in program.graphs():
        begin, _, nodes, _ = program.flat_values(step)
        for node in graph.nodes:
            inner = nodes[node.index].values["xnode_union"]
            if "negative_slope" in inner.places:
                place, form = inner.places["negative_slope"]
                new = inner.values["negative_slope"] * NUMBERS["negative_slope"]

                def patch(step: Step = step, place: int = begin + place, form: str = form, new: float = new) -> None:
                    program.patch(step, place, form, new)

                places.append((f"{program.key(step.number)}/{node.index}", patch))
    if not places:
        return ""
    key, change = places[int(draw.integers(len(places)))]
    change()
    return key


def _axis(program: EditedProgram, draw: np.random.Generator) -> str:
    from executorch.exir.schema import Int

    places = [
        step
        for step in program.steps
        if "softmax" in step.label and program.read.instructions.tensor(step.results[0]).sizes[-2] > 1
    ]
    if not places:
        return ""
    step = places[int(draw.integers(len(places)))]
    call = program.plan.chains[0].instructions[step.number].instr_args
    call.args = [program.value(Int(-2)) if one == step.arguments["dim"] else one for one in call.args]
    return program.key(step.number)


def _permuted_scale(program: EditedProgram, draw: np.random.Generator) -> str:
    places = []
    for step, graph in program.graphs():
        _, values, _, constants = program.flat_values(step)
        for node in graph.nodes:
            for number in node.reads[1:2]:
                value = graph.values.get(number)
                if value is None or value.scale is None or value.data is None or np.ptp(value.scale) == 0:
                    continue
                index = values[number].values["quant_params"].get("scale_buffer_idx")
                places.append((f"{program.key(step.number)}/{node.index}", constants[index].get("named_key", "")))
    if not places:
        return ""
    key, name = places[int(draw.integers(len(places)))]
    program.put_named(name, program.named(name).view("<f4")[::-1].copy())
    return key


def _saturation(program: EditedProgram, draw: np.random.Generator) -> str:
    """Make the range of one activation's integers sixteen times too narrow, wherever it is handed on."""
    places = []
    for step, graph in program.graphs():
        for node in graph.nodes:
            value = graph.values[node.output]
            if node.kind not in MOVING and value.scale is not None and value.external is None:
                places.append((step, graph, node))
    if not places:
        return ""
    step, graph, node = places[int(draw.integers(len(places)))]
    begin, values, _, _ = program.flat_values(step)
    for number in _handed_on(graph, node):
        about = values[number].values["quant_params"]
        place, form = about.places["scale"]
        program.patch(step, begin + place, form, about.values["scale"] / NARROWER)
    return f"{program.key(step.number)}/{node.index}"


def _handed_on(graph: XnnGraph, node: XnnNode) -> set[int]:
    found = {node.output}
    for one in graph.nodes[node.index + 1 :]:
        if one.kind in MOVING and found & set(one.reads):
            found.add(one.output)
    return found


def _inserted(kind: str) -> Callable[[EditedProgram, np.random.Generator], str]:
    """Return what puts a few instructions behind a float32 value."""

    def plant(program: EditedProgram, draw: np.random.Generator) -> str:
        from executorch.exir.schema import Bool, Double, Int, Null

        instructions = program.read.instructions
        places = [
            (step, value)
            for step in program.steps
            for value in step.results
            if DTYPES[instructions.tensor(value).scalar_type.name] == "float32"
            and instructions.tensor(value).allocation_info is not None
            and any(value in one.reads for one in program.steps)
            and not any(value in one.reads and "view" in one.label for one in program.steps)
        ]
        if not places:
            return ""
        step, source = places[int(draw.integers(len(places)))]
        chain = program.plan.chains[0].instructions
        before = [one.instr_args.args for one in chain[step.number + 1 :]]
        made: list[Any] = []

        def call(name: str, overload: str, *args: int, dtype: str = "FLOAT") -> int:
            result = program.tensor(source, dtype)
            made.append(program.call(name, overload, *args, result))
            return result

        def number(value: float) -> int:
            return program.value(Double(value))

        one = program.value(Int(1))
        size = call("aten::abs", "out", source)
        if kind == "overflowing_cast":
            same, order = program.value(Bool(False)), program.value(Null())
            convert = ("dim_order_ops::_to_dim_order_copy", "out")
            loud = call("aten::add", "Scalar_out", size, number(1e6), one)
            half = call(*convert, loud, same, order, dtype="HALF")
            named = len(made) - 1
            end = call("aten::sub", "Scalar_out", call(*convert, half, same, order), number(1e6), one)
        else:
            top = call("aten::add", "Scalar_out", size, number(3e38), one)
            large = call("aten::mul", "Scalar_out", top, number(3e38))
            named = len(made) - 1
            if kind == "masked":
                mask = call("aten::lt", "Scalar_out", large, number(float("inf")), dtype="BOOL")
                end = call("aten::where", "self_out", mask, large, source)
            else:
                end = call("aten::add", "out", source, call("aten::sub", "out", large, large, one), one)
        for args in before:
            args[:] = [end if value == source else value for value in args]
        chain[step.number + 1 : step.number + 1] = made
        return program.key(step.number + 1 + named)

    return plant


_KINDS: dict[str, Callable[[EditedProgram, np.random.Generator], str]] = {
    "constant": _weights(_louder),
    "one_channel": _weights(_turned),
    "attribute": _attribute,
    "axis": _axis,
    "permuted_scale": _permuted_scale,
    "saturation": _saturation,
    **{kind: _inserted(kind) for kind in ("overflowing_cast", "infinity_less_infinity", "masked")},
}
