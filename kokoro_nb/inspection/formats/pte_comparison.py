"""An ExecuTorch program as a comparison sees it: its instructions, and in place of an XNNPACK delegate its nodes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram
from kokoro_nb.inspection.formats.pte_content import PteContent
from kokoro_nb.inspection.formats.pte_instructions import Step
from kokoro_nb.inspection.formats.pte_operators import XnnDelegate
from kokoro_nb.inspection.formats.runnable_program import Observe
from kokoro_nb.inspection.formats.xnnpack_graph import NONE, XnnNode, XnnValue
from kokoro_nb.inspection.semantics.onnx_call import Array, Arrays, widened
from kokoro_nb.traces.operators import CONSTANT, INPUT, Operator


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
    return ComparedProgram(file.path.name, names, tuple(file.facts.outputs.values()), tuple(nodes), compute)


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
