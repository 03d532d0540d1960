"""ExecuTorch programs: run with the event tracer on, each instruction outside a delegate computed again in float64."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram
from kokoro_nb.inspection.formats.pt2_file import drawn_inputs
from kokoro_nb.inspection.formats.pte_operators import FunctionalOperator
from kokoro_nb.inspection.formats.runnable_program import Observe, ProgramFacts, ProgramRun
from kokoro_nb.inspection.input_maker import MadeInputs
from kokoro_nb.inspection.semantics.onnx_call import widened
from kokoro_nb.traces.operators import CONSTANT, INPUT, Operator

LARGEST = 4 * 2**30  # bytes of a file
DTYPES = {
    "BYTE": "uint8",
    "CHAR": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool",
    "UINT16": "uint16",
}
HIDDEN = "a delegate ({}) computes it, and shows what it gives alone"


@dataclass(frozen=True, eq=False)
class Step:
    """One instruction.

    Attributes
    ----------
    number : int
        Its place in the chain.
    operator : FunctionalOperator or None
        What it computes; None of a delegate, or of what is not known.
    label : str
        What it calls.
    arguments : dict of str to int
        The value of each argument, by name.
    results : tuple of int
        The values that it gives.
    reads : tuple of int
        The tensors that it reads.
    reason : str
        Why it cannot be judged; empty if it can.
    """

    number: int
    operator: FunctionalOperator | None
    label: str
    arguments: Mapping[str, int]
    results: tuple[int, ...]
    reads: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True, eq=False)
class PteFile:
    """An ExecuTorch program with one method.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    program : executorch.exir.schema.Program
        What is in it.
    """

    path: Path
    program: Any

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
        with path.open("rb") as stream:
            if stream.read(8)[4:6] != b"ET":
                raise InputError(f"{path} is no program of ExecuTorch.")
        with quietly():
            from executorch.exir._serialize._program import deserialize_pte_binary

            try:
                program = deserialize_pte_binary(path.read_bytes()).program
            except Exception as error:  # of any type, by what is damaged
                text = " ".join(str(error).split())[:200]
                raise InputError(f"{path} is cut off or damaged: {type(error).__name__}: {text}.") from error
        if not program.execution_plan or len(program.execution_plan[0].chains) != 1:
            raise InputError(f"{path} holds no method of one chain of instructions.")
        found = cls(path, program)
        try:
            _ = found.operators
        except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is damaged: its instructions name values that it does not have.") from error
        return found

    @property
    def _plan(self) -> Any:
        return self.program.execution_plan[0]

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(self._step(k, one.instr_args) for k, one in enumerate(self._plan.chains[0].instructions))

    def _step(self, number: int, call: Any) -> Step:
        kind = type(call).__name__
        if kind == "DelegateCall":
            delegate = self._plan.delegates[call.delegate_index].id
            given = [one for one in call.args if self._tensor(one) is not None]
            made = tuple(one for one in given if one in self._made_by_delegates)
            reads = tuple(one for one in given if one not in made)
            return Step(number, None, delegate, {}, made, reads, HIDDEN.format(delegate))
        if kind != "KernelCall":
            return Step(number, None, kind, {}, (), (), "it is no call of a kernel")
        called = self._plan.operators[call.op_index]
        label = f"{called.name}.{called.overload}" if called.overload else called.name
        last = self._plan.values[call.args[-1]].val
        results = tuple(last.items) if type(last).__name__ == "TensorList" else (call.args[-1],)
        try:
            operator = FunctionalOperator(label)
        except InputError as error:
            reads = tuple(one for one in call.args if self._tensor(one) is not None and one not in results)
            return Step(number, None, label, {}, results, reads, str(error))
        names = [one.name for one in operator._schema.arguments]
        arguments = dict(zip(names, call.args, strict=False))
        operator.results = tuple(self._torch_dtype(one) for one in results)
        return Step(number, operator, label, arguments, results, tuple(self._read(arguments.values())))

    @cached_property
    def _made_by_delegates(self) -> frozenset[int]:
        """What delegates give: the last tensors of a call that nothing before it has made."""
        known, made = set(self._plan.inputs), set()
        for one in self._plan.chains[0].instructions:
            call = one.instr_args
            if type(call).__name__ == "KernelCall":
                last = self._plan.values[call.args[-1]].val
                known |= set(last.items) if type(last).__name__ == "TensorList" else {call.args[-1]}
            elif type(call).__name__ == "DelegateCall":
                tensors = [v for v in call.args if self._tensor(v) is not None and self._stored(v) is None]
                fresh = {tensors[-1]}  # what it reads comes first, and it gives something
                for value in reversed(tensors[:-1]):
                    source = self._alias(value, known)
                    if value in known or (source is not None and self._count(source) == self._count(value)):
                        break
                    fresh.add(value)
                made |= fresh
                known |= fresh
        return frozenset(made)

    def _count(self, value: int) -> int:
        return int(np.prod(self._tensor(value).sizes, dtype=int))

    def _tensor(self, value: int) -> Any:
        found = self._plan.values[value].val
        return found if type(found).__name__ == "Tensor" else None

    def _read(self, values: Any) -> Iterator[int]:
        for value in values:
            found = self._plan.values[value].val
            if type(found).__name__ == "Tensor":
                yield value
            elif type(found).__name__ in ("TensorList", "OptionalTensorList"):
                yield from (one for one in found.items if one >= 0)

    def _stored(self, value: int) -> np.ndarray | None:
        """Return a constant; None of what is computed."""
        tensor = self._tensor(value)
        if tensor.data_buffer_idx == 0 or tensor.allocation_info is not None:
            return None
        data = self.program.constant_buffer[tensor.data_buffer_idx].storage
        dtype = np.dtype(DTYPES[tensor.scalar_type.name])
        count = int(np.prod(tensor.sizes, dtype=int))
        flat = np.frombuffer(bytes(data), dtype)[:count]
        order = list(tensor.dim_order)
        if order == sorted(order):
            return flat.reshape(tensor.sizes)
        return flat.reshape([tensor.sizes[k] for k in order]).transpose(np.argsort(order))

    def _alias(self, value: int, made: Any) -> int | None:
        """Return the value among those made so far that lies in the same memory, the last of them."""
        about = self._tensor(value).allocation_info
        if about is None:
            return None
        place = (about.memory_id, about.memory_offset_low, about.memory_offset_high)
        for one in reversed(list(made)):
            other = self._tensor(one).allocation_info if self._tensor(one) is not None else None
            if other and (other.memory_id, other.memory_offset_low, other.memory_offset_high) == place:
                return one
        return None

    @cached_property
    def _sources(self) -> dict[tuple[int, int], int]:
        """For each instruction and tensor that it reads, the value that was last put there: views share memory."""
        found: dict[tuple[int, int], int] = {}
        made: list[int] = list(self._plan.inputs)
        for step in self._steps:
            for value in step.reads:
                if self._stored(value) is None:
                    source = value if value in made else self._alias(value, made)
                    if source is None:
                        raise KeyError(value)
                    found[step.number, value] = source
            made += step.results
        for value in self._plan.outputs:
            found[-1, value] = value if value in made else self._alias(value, made) or value
        return found

    def _name(self, value: int) -> str:
        """Return the name of a tensor that is no constant: its operator's, or that of an input."""
        if value in self._plan.inputs:
            return f"{INPUT}input_{self._plan.inputs.index(value)}"
        return self._names[value]

    @cached_property
    def _names(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for step in self._steps:
            stem = f"{step.number}:{step.label.split('::')[-1].split('.')[0]}"
            several = len(step.results) > 1
            found |= {value: f"{stem}[{k}]" if several else stem for k, value in enumerate(step.results)}
        return found

    @cached_property
    def _by_name(self) -> dict[str, tuple[Step, int]]:
        return {self._names[value]: (step, k) for step in self._steps for k, value in enumerate(step.results)}

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """All of them, in the order of execution; a delegate's results are its."""
        found = []
        for name, (step, place) in self._by_name.items():
            tensor = self._tensor(step.results[place])
            reads = [
                f"{CONSTANT}value_{value}"
                if self._stored(value) is not None
                else self._name(self._sources[step.number, value])
                for value in step.reads
            ]
            dtype = DTYPES[tensor.scalar_type.name]
            found.append(Operator(name, step.label, "", tuple(dict.fromkeys(reads)), tuple(tensor.sizes), dtype))
        return tuple(found)

    @cached_property
    def facts(self) -> ProgramFacts:
        """What is known before it is run."""
        from importlib.metadata import version

        specs = []
        for k, value in enumerate(self._plan.inputs):
            tensor = self._tensor(value)
            if tensor is None:
                raise InputError(f"{self.path} takes a number, not a tensor, as its input {k}; that is not supported.")
            specs.append(TensorSpec(f"input_{k}", tuple(tensor.sizes), DTYPES[tensor.scalar_type.name]))
        ends = {f"output_{k}": self._name(self._sources[-1, v]) for k, v in enumerate(self._plan.outputs)}
        keys = {name: f"{self._plan.name}_0_{step.number}" for name, (step, _) in self._by_name.items()}
        hidden = {name: step.reason for name, (step, _) in self._by_name.items() if step.reason}
        delegates = [step for step in self._steps if step.operator is None and step.reason.startswith("a delegate")]
        note = f"{len(delegates)} of {len(self._steps)} instructions are delegates, whose inside no tracer shows."
        return ProgramFacts(
            self.path,
            f"executorch {version('executorch')}",
            self._plan.name,
            tuple(specs),
            ends,
            keys,
            hidden,
            (note,) if delegates else (),
        )

    def recompute(
        self,
        name: str,
        inputs: Mapping[str, Any],
        captured: Mapping[str, Any],
        double: bool = True,
        substitute: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any] | None = None,
    ) -> Any:
        """Compute one operator on what went into it: see `kokoro_nb.traces.trace.Meaning.recompute`."""
        import torch

        step, place = self._by_name[name]
        if step.operator is None:
            raise InputError(f"{name}: {step.reason}.")

        def tensor(value: int) -> Any:
            stored = self._stored(value)
            if stored is None:
                source = self._name(self._sources[step.number, value])
                known = inputs[source.removeprefix(INPUT)] if source.startswith(INPUT) else captured[source]
                stored = np.asarray(known).reshape(self._tensor(value).sizes)
            found = torch.from_numpy(np.array(stored))
            if found.is_floating_point():
                return found.double() if double else found.to(self._torch_dtype(value))
            return found

        named = {key: self._argument(value, tensor) for key, value in step.arguments.items()}
        with torch.no_grad():
            result = step.operator(**named)
            several = isinstance(result, tuple | list)
            if substitute is not None:
                result = substitute(step.operator, (), named, result)
            found = result[place] if several else result
            if substitute is not None and several:
                found = substitute(getitem, (result, place), {}, found)
        wanted = self._torch_dtype(step.results[place])
        return found if double and wanted.is_floating_point else found.to(wanted)

    def _argument(self, value: int, tensor: Callable[[int], Any]) -> Any:
        found = self._plan.values[value].val
        kind = type(found).__name__
        if kind == "Tensor":
            return tensor(value)
        if kind in ("TensorList", "OptionalTensorList"):
            return [tensor(one) if one >= 0 else None for one in found.items]
        if kind == "IntList":
            return [self._plan.values[one].val.int_val for one in found.items]
        if kind in ("DoubleList", "BoolList"):
            return list(found.items)
        if kind == "Null":
            return None
        return next(iter(vars(found).values()))

    def _torch_dtype(self, value: int) -> Any:
        import torch

        return getattr(torch, DTYPES[self._tensor(value).scalar_type.name])

    def made_inputs(self, seed: int = 0) -> MadeInputs:
        """Draw inputs; integers stay below what they look up."""
        bounds = {}
        for step in self._steps:
            if step.label.startswith("aten::embedding"):
                table, indices = (step.arguments[one] for one in ("weight", "indices"))
                source = self._name(self._sources[step.number, indices])
                bounds[source.removeprefix(INPUT)] = int(self._tensor(table).sizes[0])
        return drawn_inputs(self.facts.inputs, seed, bounds)

    def run(self, inputs: Mapping[str, np.ndarray]) -> ProgramRun:
        """Run it once in a process of its own, with the event tracer on.

        Raises
        ------
        InputError
            If the runtime stops or crashes.
        """
        from kokoro_nb.backends.executorch.tracing import logged_run

        try:
            run = logged_run(self.path.resolve(), inputs, self._room(), again=True)
        except RuntimeError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise InputError(f"ExecuTorch does not run {self.path}: {lines[-1][:300] if lines else error}") from error
        captured = {}
        for step in self._steps:
            tensors = run.logged.get(step.number, [])
            if len(tensors) < len(step.results):
                continue
            for place, value in enumerate(step.results):
                found = tensors[place - len(step.results)]
                if found.size == np.prod(self._tensor(value).sizes, dtype=int):
                    captured[self._names[value]] = np.array(found).reshape(self._tensor(value).sizes)
        first, again = ({f"output_{k}": value for k, value in enumerate(one)} for one in (run.outputs, run.again))
        return ProgramRun(captured, first, again)

    def _room(self) -> int:
        """Return how many bytes the event tracer needs, with room to spare."""
        values = [value for step in self._steps for value in (*step.results, *step.reads)]
        sizes = [np.prod(self._tensor(one).sizes, dtype=int) * 8 + 256 for one in (*values, *self._plan.outputs)]
        return int(2**16 + np.sum(sizes))

    def true(self, inputs: Mapping[str, np.ndarray], observe: Observe) -> None:
        """Compute it in float64 from the start, as far as no delegate is in the way."""
        known: dict[str, np.ndarray] = {}
        wide = {name: widened(value) for name, value in inputs.items()}
        for operator in self.operators:
            step, _ = self._by_name[operator.name]
            read = [one for one in operator.inputs if not one.startswith((INPUT, CONSTANT))]
            if step.operator is not None and all(one in known for one in read):
                known[operator.name] = self.recompute(operator.name, wide, known).numpy()
                observe(operator.name, known[operator.name])

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program."""

        def compute(inputs: Mapping[str, np.ndarray], observe: Observe) -> None:
            for name, value in inputs.items():
                observe(name, widened(value))
            self.true(inputs, observe)

        nodes = []
        for index, operator in enumerate(self.operators):
            step, _ = self._by_name[operator.name]
            held = [(f"value_{v}", self._stored(v)) for v in step.reads]
            constants = tuple((name, array) for name, array in held if array is not None)
            reads = tuple(name.removeprefix(INPUT) for name in operator.inputs if not name.startswith(CONSTANT))
            key = self.facts.keys[operator.name]
            attributes = {
                name: self._argument(value, lambda _: None)
                for name, value in step.arguments.items()
                if value not in step.reads
            }
            node = ComparedNode(index, key, operator.op, reads, (operator.name,), constants, attributes)
            nodes.append(replace(node, attributes={k: v for k, v in attributes.items() if v is not None}))
        names = tuple(spec.name for spec in self.facts.inputs)
        return ComparedProgram(self.path.name, names, tuple(self.facts.outputs.values()), tuple(nodes), compute)
