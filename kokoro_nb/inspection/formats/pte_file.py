"""ExecuTorch programs: run with the event tracer on, each instruction outside a delegate computed again in float64."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.called_operators import picks
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.backends.signature import TensorSpec, array_of
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.captured_program import CapturedProgram, ProgramFacts, ProgramRun
from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram, Observe
from kokoro_nb.inspection.formats.pte_instructions import PteInstructions, Step
from kokoro_nb.inspection.formats.xnnpack_graph import NONE, XnnDelegate, XnnValue
from kokoro_nb.inspection.input_maker import MadeInputs, drawn_inputs
from kokoro_nb.inspection.judged_run import OperatorAlone
from kokoro_nb.inspection.semantics.onnx_call import widened
from kokoro_nb.inspection.value_types import Array, Arrays, refusing
from kokoro_nb.traces.trace import CONSTANT, INPUT, Given, Hook

LARGEST = 4 * 2**30  # bytes of a file
MISSING = (IndexError, KeyError, TypeError, AttributeError)  # what is raised of a value that is not there
HALVES = (
    "ExecuTorch's event tracer cannot show a program with float16 values: its instructions were computed by "
    "PyTorch in the file's own types, and the outputs alone are ExecuTorch's."
)
LINES = """\
import torch
{kernels}from executorch.runtime import Runtime

program = Runtime.get().load_program(here / "one_node.pte")
inputs = [torch.from_numpy(saved[f"in{{k}}"]) for k in range({count})]
given = program.load_method("{method}").execute(inputs)[{place}].numpy()
"""


@dataclass(frozen=True, eq=False)
class PteFile(PteInstructions, CapturedProgram):
    """An ExecuTorch program with one method.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    """

    path: Path

    @classmethod
    def read(cls, path: Path) -> "PteFile":
        """Read a file.

        Raises
        ------
        InputError
            If it is no such file, is cut off or damaged, or has no method, or several chains of instructions.
        """
        size = path.stat().st_size
        if path.is_dir() or not 8 < size <= LARGEST:
            raise InputError(f"{path} has {size:,} bytes; a .pte file has at least 8 and at most {LARGEST:,}.")
        data = path.read_bytes()
        if data[4:6] != b"ET":
            raise InputError(f"{path} is no program of ExecuTorch.")
        with quietly():
            read = of_executorch("deserialize_pte_binary")
            with refusing(f"{path} is cut off or damaged: {{}}."):
                whole = read(data)
                # ExecuTorch 0.7 returns the program alone
                program, held = (whole.program, whole.named_data) if hasattr(whole, "program") else (whole, None)
        if not program.execution_plan or len(program.execution_plan[0].chains) != 1:
            raise InputError(f"{path} holds no method of one chain of instructions.")
        entries = () if held is None else held.pte_data.items()
        named = {name: bytes(held.buffers[one.buffer_index]) for name, one in entries}  # type: ignore[union-attr]
        found = cls(program, named, path)
        with refusing(f"{path} is damaged: its instructions name values that it does not have.", kinds=MISSING):
            _ = found.facts, found.compared()
        return found

    @cached_property
    def facts(self) -> ProgramFacts:
        """What is known before it is run."""
        specs = []
        for k, value in enumerate(self.plan.inputs):
            tensor = self.tensor(value)
            if tensor is None:
                raise InputError(f"{self.path} takes a number, not a tensor, as its input {k}; that is not supported.")
            specs.append(TensorSpec(f"input_{k}", tuple(tensor.sizes), self.dtype(value)))
        delegates = [step for step in self.steps if step.is_delegate]
        known = sum(step.operator is not None for step in delegates)
        note = f"{len(delegates)} of {len(self.steps)} instructions are delegates, whose inside no tracer shows: "
        note += f"{known} of them are judged by their results, against the graph that the file holds."
        outputs = {f"output_{k}": self.last(value) for k, value in enumerate(self.plan.outputs)}
        keys = {name: f"{self.plan.name}_0_{step.number}" for name, (step, _) in self.by_name.items()}
        hidden = {name: step.reason for name, (step, _) in self.by_name.items() if step.reason}
        notes = (*([note] if delegates else []), *([HALVES] if self.has_halves else []))
        about = self.path, f"executorch {version('executorch')}", tuple(specs)
        return ProgramFacts(*about, outputs, keys, hidden, notes)

    @property
    def has_halves(self) -> bool:
        """Whether an instruction gives floats of 16 bits."""
        return any("float16" in one.dtype for one in self.operators)

    def recompute(self, name: str, inputs: Given, captured: Given, double: bool = True, substitute: Hook = None) -> Any:
        """Compute one operator on its inputs: see `kokoro_nb.traces.trace.Meaning.recompute`."""
        step, place = self.by_name[name]
        if step.operator is None:
            raise InputError(f"{name}: {step.reason}.")
        named = self._given(step, inputs, captured, double)
        change = substitute or (lambda *call: call[-1])
        with torch.no_grad():
            operator = picks(step.operator, self.dtype(step.reads[0])) if double and step.reads else step.operator
            found = change(step.operator, (), named, operator(**named))
            if isinstance(found, tuple | list):
                found = change(getitem, (found, place), {}, found[place])
        wanted = self.torch_dtype(step.results[place])
        if double and wanted.is_floating_point:
            return found if found.is_floating_point() else found.double()  # a cast of integers
        return found.to(wanted)

    def _given(self, step: Step, inputs: Given, captured: Given, double: bool = True) -> dict[str, Any]:
        """Return the arguments of an instruction by name, floats in float64 or in the file's own types."""

        def tensor(value: int) -> Any:
            stored: Any = self.stored(value) if value not in step.sources else None
            if stored is None:
                source = step.sources[value]
                known = inputs[source.removeprefix(INPUT)] if source.startswith(INPUT) else captured[source]
                stored = np.asarray(known).reshape(self.tensor(value).sizes)
            found = torch.from_numpy(np.array(stored, order="C"))  # as it lies in ExecuTorch: out variants rely on it
            if found.is_floating_point():
                return found.double() if double else found.to(self.torch_dtype(value))
            return found

        return {key: self.argument(value, tensor) for key, value in step.arguments.items()}

    def made(self, seed: int = 0) -> MadeInputs:
        """Draw inputs; integers stay below what they look up."""
        read = [(one, one.arguments) for one in self.steps if one.label.startswith("aten::embedding")]
        sizes = {one.sources.get(held["indices"], ""): int(self.tensor(held["weight"]).sizes[0]) for one, held in read}
        return drawn_inputs(self.facts.inputs, seed, {name.removeprefix(INPUT): one for name, one in sizes.items()})

    def run(self, inputs: Arrays) -> ProgramRun:
        """Run it once in a process of its own, with the event tracer on.

        Raises
        ------
        InputError
            If the runtime stops or crashes.
        """
        from kokoro_nb.backends.executorch.tracing import logged_run

        values = [value for step in self.steps for value in (*step.results, *step.reads)] + self.plan.outputs
        room = 2**16 + sum(8 * self.count(one) + 256 for one in values)
        try:
            run = logged_run(self.path.resolve(), inputs, room, again=True)
        except RuntimeError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise InputError(f"ExecuTorch does not run {self.path}: {lines[-1][:300] if lines else error}") from error
        captured: dict[str, np.ndarray] = {}
        if self.has_halves and not run.logged:
            for operator in self.operators:
                if all(one in captured for one in operator.inputs if not one.startswith((INPUT, CONSTANT))):
                    captured[operator.name] = array_of(self.recompute(operator.name, inputs, captured, double=False))
        for step in self.steps:
            tensors = run.logged.get(step.number, [])[-len(step.results) or None :]
            for name, value, found in zip(step.names, step.results, tensors, strict=False):
                if len(tensors) == len(step.results) and found.size == self.count(value):
                    captured[name] = np.array(found).reshape(self.tensor(value).sizes)
        first, again = ({f"output_{k}": value for k, value in enumerate(one)} for one in (run.outputs, run.again))
        return ProgramRun(captured, first, None if self.states else again)

    def alone(self, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
        """Write one instruction as a program of its own, ``one_node.pte``.

        Raises
        ------
        InputError
            If an input of the instruction is not known, or ExecuTorch cannot write the program.
        """
        step, place = self.by_name[name]
        values = {}
        for k, (value, source) in enumerate(step.sources.items()):
            known = inputs.get(source.removeprefix(INPUT)) if source.startswith(INPUT) else captured.get(source)
            if known is None:
                raise InputError(f"its input {source} is not shown.")
            values[f"in{k}"] = np.asarray(known, self.dtype(value)).reshape(self.tensor(value).sizes)
        with quietly():
            read, write = map(of_executorch, ("deserialize_pte_binary", "serialize_pte_binary"))
            with refusing("ExecuTorch does not write it as a program: {}", lambda error: str(error)[:200]):
                whole = read(self.path.read_bytes())
                plan = whole.program.execution_plan[0]
                (chain,) = plan.chains
                chain.instructions = [chain.instructions[step.number]]
                plan.inputs, plan.outputs = list(step.sources), list(step.results)
                chain.inputs = chain.outputs = chain.stacktrace = None
                _empty(whole.program, chain.instructions[0].instr_args.args)
                data = bytes(write(whole, extract_delegate_segments=True))
        (folder / "one_node.pte").write_bytes(data)
        kernels = "import executorch.kernels.quantized\n" if "quantized" in step.label else ""
        lines = LINES.format(kernels=kernels, count=len(values), method=plan.name, place=place)
        return OperatorAlone("executorch", lines, values)

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program; a delegate's own nodes stand in its place."""
        nodes: list[ComparedNode] = []
        for step in self.steps:
            nodes += (self._inside if isinstance(step.operator, XnnDelegate) else self._nodes)(step, len(nodes))
        ends = (*self.facts.outputs.values(), *filter(None, map(self.last, sorted(self.states))))
        return ComparedProgram(self.path.name, self.inputs, ends, tuple(nodes), self._compute)

    def _compute(self, inputs: Arrays, observe: Observe) -> None:
        """Compute it in float64; each value inside of a delegate is observed as well."""
        wide = {name: widened(value) for name, value in inputs.items()}
        known: dict[str, Array] = {}
        for step in self.steps:
            read = [one for one in step.sources.values() if not one.startswith(INPUT)]
            if step.operator is None or any(one not in known for one in read):
                continue
            if isinstance(step.operator, XnnDelegate):
                names = _names(step, step.operator)

                def seen(number: int, value: Any, names: Mapping[int, str] = names) -> None:
                    if "/" in names[number]:
                        observe(names[number], value.numpy())

                results = step.operator(seen, **self._given(step, wide, known))
            else:
                results = tuple(self.recompute(name, wide, known) for name in step.names)
            for name, result in zip(step.names, results, strict=True):
                known[name] = result.numpy()
                observe(name, known[name])

    def _nodes(self, step: Step, start: int) -> Iterator[ComparedNode]:
        """Yield a node for each result of an instruction."""
        held = [(f"value_{value}", self.stored(value)) for value in step.reads]
        constants = tuple((name, array) for name, array in held if array is not None)
        reads = tuple(dict.fromkeys(one.removeprefix(INPUT) for one in step.sources.values()))
        others = {name: value for name, value in step.arguments.items() if value not in step.reads}
        attributes = {name: self.argument(value, lambda _: None) for name, value in others.items()}
        known = {name: one for name, one in attributes.items() if one is not None}
        for index, name in enumerate(step.names, start):
            yield ComparedNode(index, self.facts.keys[name], step.label, reads, (name,), constants, known)

    def _inside(self, step: Step, start: int) -> Iterator[ComparedNode]:
        """Yield the nodes of a delegate; the id of each is that of the delegate's instruction and its index."""
        delegate: Any = step.operator
        names, caller = _names(step, delegate), self.facts.keys[step.names[0]]
        held = {number: one.data for number, one in delegate.values.items()}
        for one in delegate.inputs:
            held[one.number] = self.stored(step.arguments[f"input_{one.external}"])
        for index, node in enumerate(delegate.nodes, start):
            read = [one for one in node.reads if one != NONE]
            constants = [None if held[one] is None else (f"value {one}", held[one]) for one in read]
            constants += [each for one in (*read, node.output) for each in _scale(delegate.values[one])]
            attributes = {name: one for name, one in vars(node.fields).items() if not name.endswith("_id")}
            reads = tuple(names[one] for one in read if held[one] is None)
            about = f"{caller}/{node.index}", node.kind, reads, (names[node.output],), tuple(constants), attributes
            yield ComparedNode(index, *about, rounds=delegate.values[node.output].scale is not None)


def _names(step: Step, delegate: XnnDelegate) -> dict[int, str]:
    """Return the name of each value of a delegate; those that it does not share with the program hold a slash."""
    names = {number: f"{step.number}:{step.label}/{number}" for number in delegate.values}
    for one in delegate.inputs:
        names[one.number] = step.sources.get(step.arguments[f"input_{one.external}"], "").removeprefix(INPUT)
    return names | {one.number: name for one, name in zip(delegate.outputs, step.names, strict=True)}


def _scale(value: XnnValue) -> Iterator[tuple[str, Array]]:
    if value.scale is not None:
        yield f"scale of value {value.number}", value.scale
        yield f"zero point of value {value.number}", np.asarray(value.zero_point)


def _empty(program: Any, arguments: Sequence[int]) -> None:
    """Take out of a program every value that a call does not have, and the constants of those."""
    (plan,) = program.execution_plan
    used = set(arguments)
    for held in [plan.values[one].val for one in arguments]:
        if "List" in type(held).__name__:
            used |= {item for item in held.items if type(item) is int}  # numbers of values, or numbers as such
    for k, value in enumerate(plan.values):
        if k not in used:
            value.val = of_executorch("Null")()
    kept = {getattr(value.val, "data_buffer_idx", 0) for value in plan.values}
    for k, buffer in enumerate(program.constant_buffer):
        if k not in kept:
            buffer.storage = b""
