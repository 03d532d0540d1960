"""ExecuTorch programs: run with the event tracer on, each instruction outside a delegate computed again in float64."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram, Observe
from kokoro_nb.inspection.formats.pte_content import PteContent
from kokoro_nb.inspection.formats.pte_instructions import DTYPES, Step
from kokoro_nb.inspection.formats.pte_operators import XnnDelegate
from kokoro_nb.inspection.formats.runnable_program import OperatorAlone, ProgramRun
from kokoro_nb.inspection.formats.xnnpack_graph import NONE, XnnNode, XnnValue
from kokoro_nb.inspection.semantics.onnx_call import widened
from kokoro_nb.inspection.value_types import Array, Arrays
from kokoro_nb.traces.operators import CONSTANT, INPUT, Operator


class PteFile(PteContent):
    """An ExecuTorch program that is run here, compared with another, and taken apart."""

    def run(self, inputs: Arrays) -> ProgramRun:
        """Run it once in a process of its own, with the event tracer on.

        Raises
        ------
        InputError
            If the runtime stops or crashes.
        """
        from kokoro_nb.backends.executorch.tracing import logged_run

        try:
            run = logged_run(self.path.resolve(), inputs, self.room(), again=True)
        except RuntimeError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise InputError(f"ExecuTorch does not run {self.path}: {lines[-1][:300] if lines else error}") from error
        captured: dict[str, np.ndarray] = {}
        if self.has_halves and not run.logged:
            for operator in self.operators:
                if all(one in captured for one in operator.inputs if not one.startswith((INPUT, CONSTANT))):
                    captured[operator.name] = self.recompute(operator.name, inputs, captured, double=False).numpy()
        for step in self.instructions.steps:
            tensors = run.logged.get(step.number, [])
            if len(tensors) < len(step.results):
                continue
            for place, value in enumerate(step.results):
                found = tensors[place - len(step.results)]
                if found.size == np.prod(self.instructions.tensor(value).sizes, dtype=int):
                    captured[self.instructions.names[value]] = np.array(found).reshape(
                        self.instructions.tensor(value).sizes
                    )
        first, again = ({f"output_{k}": value for k, value in enumerate(one)} for one in (run.outputs, run.again))
        return ProgramRun(captured, first, None if self.instructions.states else again)

    def room(self) -> int:
        """Return how many bytes the event tracer needs, with room to spare."""
        values = [value for step in self.instructions.steps for value in (*step.results, *step.reads)]
        sizes = [
            np.prod(self.instructions.tensor(one).sizes, dtype=int) * 8 + 256
            for one in (*values, *self.instructions.plan.outputs)
        ]
        return int(2**16 + np.sum(sizes))

    def alone(self, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
        """Write one instruction as a program of its own."""
        return alone_in_pte(self, name, inputs, captured, folder)

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program; a delegate's own nodes stand in its place."""
        return compared_pte(self)


LINES = """\
import torch
{kernels}from executorch.runtime import Runtime

program = Runtime.get().load_program(here / "one_node.pte")
inputs = [torch.from_numpy(saved[f"in{{k}}"]) for k in range({count})]
given = program.load_method("{method}").execute(inputs)[{place}].numpy()
"""


def _empty(program: Any, arguments: Sequence[int]) -> None:
    """Take out of a program every value that a call does not have, and the constants of those."""
    from executorch.exir.schema import Null

    (plan,) = program.execution_plan
    used = set(arguments)
    for held in [plan.values[one].val for one in arguments]:
        if "List" in type(held).__name__:
            used |= {item for item in held.items if type(item) is int}  # numbers of values, or numbers as such
    for k, value in enumerate(plan.values):
        if k not in used:
            value.val = Null()
    kept = {getattr(value.val, "data_buffer_idx", 0) for value in plan.values}
    for k, buffer in enumerate(program.constant_buffer):
        if k not in kept:
            buffer.storage = b""


def alone_in_pte(file: PteContent, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
    """Write ``one_node.pte`` into a folder.

    Parameters
    ----------
    file : PteContent
        The program that it is in.
    name : str
        The operator.
    inputs, captured : mapping of str to numpy.ndarray
        What went into the file, and what its operators gave.
    folder : path
        Where it is written.

    Raises
    ------
    InputError
        If what went into the instruction is not known, or ExecuTorch cannot write the program.
    """
    instructions = file.instructions
    step, place = instructions.by_name[name]
    given = [one for one in dict.fromkeys(step.reads) if instructions.stored(one) is None]
    values = {}
    for k, value in enumerate(given):
        source = instructions.name_of(instructions.sources[step.number, value])
        known = inputs.get(source.removeprefix(INPUT)) if source.startswith(INPUT) else captured.get(source)
        if known is None:
            raise InputError(f"what goes into it, {source}, is not shown.")
        tensor = instructions.tensor(value)
        values[f"in{k}"] = np.asarray(known, DTYPES[tensor.scalar_type.name]).reshape(tensor.sizes)
    with quietly():
        from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

        try:
            whole = deserialize_pte_binary(file.path.read_bytes())
            (chain,) = whole.program.execution_plan[0].chains
            chain.instructions = [chain.instructions[step.number]]
            plan = whole.program.execution_plan[0]
            plan.inputs, plan.outputs = given, list(step.results)
            chain.inputs = chain.outputs = chain.stacktrace = None
            _empty(whole.program, chain.instructions[0].instr_args.args)
            data = bytes(serialize_pte_binary(whole, extract_delegate_segments=True))
        except Exception as error:  # a third party's writer: of any type
            raise InputError(f"ExecuTorch does not write it as a program: {str(error)[:200]}") from error
    (folder / "one_node.pte").write_bytes(data)
    kernels = "import executorch.kernels.quantized\n" if "quantized" in step.label else ""
    lines = LINES.format(kernels=kernels, count=len(given), method=instructions.plan.name, place=place)
    return OperatorAlone("executorch", lines, values)


def compared_pte(file: PteContent) -> ComparedProgram:
    """Return a file for a comparison with another program."""

    def compute(inputs: Arrays, observe: Observe) -> None:
        known: dict[str, Array] = {}
        wide = {name: widened(value) for name, value in inputs.items()}
        for name, value in wide.items():
            observe(name, value)
        for step, operators in _by_step(file):
            read = [one for one in operators[0].inputs if not one.startswith((INPUT, CONSTANT))]
            if step.operator is None or any(one not in known for one in read):
                continue
            if isinstance(step.operator, XnnDelegate):
                results = _observed(file, step, step.operator, wide, known, observe)
            else:
                results = [file.recompute(one.name, wide, known).numpy() for one in operators]
            for one, result in zip(operators, results, strict=True):
                known[one.name] = result
                observe(one.name, result)

    nodes: list[ComparedNode] = []
    for step, operators in _by_step(file):
        if isinstance(step.operator, XnnDelegate):
            nodes += _inside(file, step, step.operator, len(nodes))
        else:
            nodes += [_node(file, step, one, len(nodes) + k) for k, one in enumerate(operators)]
    names = tuple(spec.name for spec in file.facts.inputs)
    outputs = (*file.facts.outputs.values(), *file.instructions.new_states)
    return ComparedProgram(file.path.name, names, outputs, tuple(nodes), compute)


def _by_step(file: PteContent) -> Iterator[tuple[Step, list[Operator]]]:
    """Yield each instruction with the operators that are its results."""
    known = {one.name: one for one in file.operators}
    for step in file.instructions.steps:
        if step.results:
            yield step, [known[file.instructions.names[value]] for value in step.results]


def _observed(
    file: PteContent, step: Step, delegate: XnnDelegate, inputs: Mapping[str, Any], known: Arrays, observe: Observe
) -> list[Array]:
    """Compute a delegate, each value inside under its name, and return its results."""
    ends = {one.number for one in delegate.graph.outputs}

    def seen(number: int, value: Any) -> None:
        if number not in ends:
            observe(_name(step, number), value.numpy())

    return [one.numpy() for one in delegate.run(file.given(step, inputs, known), seen)]


def _name(step: Step, number: int) -> str:
    return f"{step.number}:{step.label}/{number}"


def _node(file: PteContent, step: Step, operator: Operator, index: int) -> ComparedNode:
    instructions = file.instructions
    held = [(f"value_{v}", instructions.stored(v)) for v in step.reads]
    constants = tuple((name, array) for name, array in held if array is not None)
    reads = tuple(name.removeprefix(INPUT) for name in operator.inputs if not name.startswith(CONSTANT))
    attributes = {
        name: instructions.argument(value, lambda _: None)
        for name, value in step.arguments.items()
        if value not in step.reads
    }
    known = {name: one for name, one in attributes.items() if one is not None}
    return ComparedNode(index, file.facts.keys[operator.name], operator.op, reads, (operator.name,), constants, known)


def _inside(file: PteContent, step: Step, delegate: XnnDelegate, start: int) -> Iterator[ComparedNode]:
    """Yield the nodes of a delegate; the id of each is that of the delegate's instruction and its index."""
    graph, instructions = delegate.graph, file.instructions
    caller = file.facts.keys[instructions.names[step.results[0]]]
    names = {one: _name(step, one) for one in graph.values}
    for one in graph.outputs:
        names[one.number] = instructions.names[step.results[delegate.gives.index(one.external)]]
    fixed: dict[int, Array] = {}
    for one in graph.inputs:
        value = step.arguments[f"input_{one.external}"]
        stored = instructions.stored(value)
        if stored is not None:
            fixed[one.number] = stored
        else:
            names[one.number] = instructions.name_of(instructions.sources[step.number, value]).removeprefix(INPUT)
    for node in graph.nodes:
        values = [graph.values[one] for one in node.reads if one != NONE]
        constants: list[tuple[str, Array] | None] = []
        for one in values:
            array = fixed.get(one.number, one.data)
            constants.append(None if array is None else (f"value {one.number}", array))
        constants += [each for one in (*values, graph.values[node.output]) for each in _scale(one)]
        reads = tuple(names[one.number] for one in values if one.data is None and one.number not in fixed)
        yield ComparedNode(
            start + node.index,
            f"{caller}/{node.index}",
            node.kind,
            reads,
            (names[node.output],),
            tuple(constants),
            _attributes(node),
            rounds=graph.values[node.output].scale is not None,
        )


def _scale(value: XnnValue) -> Iterator[tuple[str, Array]]:
    if value.scale is not None:
        yield f"scale of value {value.number}", value.scale
        yield f"zero point of value {value.number}", np.asarray(value.zero_point)


def _attributes(node: XnnNode) -> dict[str, Any]:
    numbers = {name: one for name, one in node.table.values.items() if not name.endswith("_id")}
    return numbers | ({} if node.limits is None else {"limits": list(node.limits)})
