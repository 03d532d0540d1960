"""The instructions of an ExecuTorch program: what each calls, which values it reads, and whose memory they share."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.executorch.tracing import DTYPES as TRACED
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.formats.pte_operators import FunctionalOperator, XnnDelegate
from kokoro_nb.traces.operators import CONSTANT, INPUT, Operator

DTYPES = {**TRACED, "UINT16": "uint16"}
HIDDEN = "a delegate ({}) computes it, and shows what it gives alone"


@dataclass(frozen=True, eq=False)
class Step:
    """One instruction.

    Attributes
    ----------
    number : int
        Its place in the chain.
    operator : FunctionalOperator, XnnDelegate or None
        What it computes; None of what is not known.
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
    operator: FunctionalOperator | XnnDelegate | None
    label: str
    arguments: Mapping[str, int]
    results: tuple[int, ...]
    reads: tuple[int, ...]
    reason: str = ""

    @property
    def is_delegate(self) -> bool:
        """Whether another runtime computes it."""
        return isinstance(self.operator, XnnDelegate) or self.reason.startswith("a delegate")


@dataclass(frozen=True, eq=False)
class PteInstructions:
    """The one chain of instructions of a program's first method.

    Attributes
    ----------
    program : executorch.exir.schema.Program
        The program.
    named : dict of str to bytes
        Data that its delegates find by name.
    """

    program: Any
    named: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def plan(self) -> Any:
        """The method."""
        return self.program.execution_plan[0]

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The instructions in order."""
        return tuple(self._step(k, one.instr_args) for k, one in enumerate(self.plan.chains[0].instructions))

    def _step(self, number: int, call: Any) -> Step:
        kind = type(call).__name__
        if kind == "DelegateCall":
            delegate = self.plan.delegates[call.delegate_index].id
            inside = self._inside[number]
            if isinstance(inside, XnnDelegate):
                arguments = {f"input_{k}": call.args[k] for k in inside.reads}
                made = tuple(call.args[k] for k in inside.gives)
                return Step(number, inside, delegate, arguments, made, tuple(arguments.values()))
            given = [one for one in call.args if self.tensor(one) is not None]
            made = tuple(one for one in given if one in self._made_by_delegates)
            reads = tuple(one for one in given if one not in made)
            return Step(number, None, delegate, {}, made, reads, f"{HIDDEN.format(delegate)}{inside}")
        if kind != "KernelCall":
            return Step(number, None, kind, {}, (), (), "it is no call of a kernel")
        called = self.plan.operators[call.op_index]
        label = f"{called.name}.{called.overload}" if called.overload else called.name
        last = self.plan.values[call.args[-1]].val
        results = tuple(last.items) if type(last).__name__ == "TensorList" else (call.args[-1],)
        try:
            operator = FunctionalOperator(label)
        except InputError as error:
            reads = tuple(one for one in call.args if self.tensor(one) is not None and one not in results)
            return Step(number, None, label, {}, results, reads, str(error))
        names = [one.name for one in operator._schema.arguments]
        arguments = dict(zip(names, call.args, strict=False))
        operator.results = tuple(self.torch_dtype(one) for one in results)
        return Step(number, operator, label, arguments, results, tuple(self._read(arguments.values())))

    @cached_property
    def _inside(self) -> dict[int, XnnDelegate | str]:
        """For each delegate's instruction what it computes; in words why that is not known, if it is not."""
        calls = {k: one.instr_args for k, one in enumerate(self.plan.chains[0].instructions)}
        return {k: self._delegate(call) for k, call in calls.items() if type(call).__name__ == "DelegateCall"}

    def _delegate(self, call: Any) -> XnnDelegate | str:
        delegate = self.plan.delegates[call.delegate_index]
        if delegate.id != XnnDelegate.name:
            return ""
        payload = bytes(self.program.backend_delegate_data[delegate.processed.index].data)
        try:
            return XnnDelegate.read(payload, self.named, [self._sizes(one) for one in call.args])
        except ValueError as error:
            return f"; {error}"

    def _sizes(self, value: int) -> tuple[int, ...] | None:
        tensor = self.tensor(value)
        return None if tensor is None else tuple(tensor.sizes)

    @cached_property
    def _made_by_delegates(self) -> frozenset[int]:
        """What delegates give: the last tensors of a call that nothing before it has made."""
        known, made = set(self.plan.inputs), set()
        for number, one in enumerate(self.plan.chains[0].instructions):
            call = one.instr_args
            if type(call).__name__ == "KernelCall":
                last = self.plan.values[call.args[-1]].val
                known |= set(last.items) if type(last).__name__ == "TensorList" else {call.args[-1]}
            elif type(call).__name__ == "DelegateCall":
                inside = self._inside[number]
                if isinstance(inside, XnnDelegate):
                    made |= {call.args[k] for k in inside.gives}
                    known |= made
                    continue
                tensors = [v for v in call.args if self.tensor(v) is not None and self._constant(v) is None]
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
        return int(np.prod(self.tensor(value).sizes, dtype=int))

    def tensor(self, value: int) -> Any:
        """Return what the file says of a tensor; None of any other value."""
        found = self.plan.values[value].val
        return found if type(found).__name__ == "Tensor" else None

    def _read(self, values: Any) -> Iterator[int]:
        for value in values:
            found = self.plan.values[value].val
            if type(found).__name__ == "Tensor":
                yield value
            elif type(found).__name__ in ("TensorList", "OptionalTensorList"):
                yield from (one for one in found.items if one >= 0)

    def stored(self, value: int) -> np.ndarray | None:
        """Return a constant, or the zeros that a state starts with; None of what is computed."""
        tensor = self.tensor(value)
        if value in self.states:
            return np.zeros(tensor.sizes, DTYPES[tensor.scalar_type.name])
        return self._constant(value)

    @cached_property
    def states(self) -> frozenset[int]:
        """The tensors that are read before the instruction that writes them: ExecuTorch starts them with zeros."""
        return self._flow[1]

    @property
    def new_states(self) -> tuple[str, ...]:
        """The names of the results that the states are left with, as far as they are written."""
        made = [value for step in self.steps for value in step.results]
        last = (one if one in made else self._alias(one, made) for one in sorted(self.states))
        return tuple(self.names[one] for one in last if one is not None)

    def _constant(self, value: int) -> np.ndarray | None:
        tensor = self.tensor(value)
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
        about = self.tensor(value).allocation_info
        if about is None:
            return None
        place = (about.memory_id, about.memory_offset_low, about.memory_offset_high)
        for one in reversed(list(made)):
            other = self.tensor(one).allocation_info if self.tensor(one) is not None else None
            if other and (other.memory_id, other.memory_offset_low, other.memory_offset_high) == place:
                return one
        return None

    @cached_property
    def sources(self) -> dict[tuple[int, int], int]:
        """For each instruction and tensor that it reads, the value that was last put there: views share memory."""
        return self._flow[0]

    @cached_property
    def _flow(self) -> tuple[dict[tuple[int, int], int], frozenset[int]]:
        """Return the sources and the states: what is read before anything was put there, and written later."""
        found: dict[tuple[int, int], int] = {}
        early: set[int] = set()
        made: list[int] = list(self.plan.inputs)
        for step in self.steps:
            for value in step.reads:
                if self._constant(value) is not None:
                    continue
                source = value if value in made else self._alias(value, made)
                if source is None:
                    early.add(value)
                else:
                    found[step.number, value] = source
            made += step.results
        for value in early - set(made):
            raise KeyError(value)
        for value in self.plan.outputs:
            found[-1, value] = value if value in made else self._alias(value, made) or value
        return found, frozenset(early)

    def name_of(self, value: int) -> str:
        """Return the name of a tensor that is no constant: its operator's, or that of an input."""
        if value in self.plan.inputs:
            return f"{INPUT}input_{self.plan.inputs.index(value)}"
        return self.names[value]

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each value that an instruction gives."""
        found: dict[int, str] = {}
        for step in self.steps:
            stem = f"{step.number}:{step.label.split('::')[-1].split('.')[0]}"
            several = len(step.results) > 1
            found |= {value: f"{stem}[{k}]" if several else stem for k, value in enumerate(step.results)}
        return found

    @cached_property
    def by_name(self) -> dict[str, tuple[Step, int]]:
        """The instruction that gives each result, and which of its results it is."""
        return {self.names[value]: (step, k) for step in self.steps for k, value in enumerate(step.results)}

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """All of them, in the order of execution; a delegate's results are its."""
        found = []
        for name, (step, place) in self.by_name.items():
            tensor = self.tensor(step.results[place])
            reads = [
                f"{CONSTANT}value_{value}"
                if self.stored(value) is not None
                else self.name_of(self.sources[step.number, value])
                for value in step.reads
            ]
            dtype = DTYPES[tensor.scalar_type.name]
            found.append(Operator(name, step.label, "", tuple(dict.fromkeys(reads)), tuple(tensor.sizes), dtype))
        return tuple(found)

    def argument(self, value: int, tensor: Callable[[int], Any]) -> Any:
        """Return an argument; `tensor` gives those that are tensors."""
        found = self.plan.values[value].val
        kind = type(found).__name__
        if kind == "Tensor":
            return tensor(value)
        if kind in ("TensorList", "OptionalTensorList"):
            return [tensor(one) if one >= 0 else None for one in found.items]
        if kind == "IntList":
            return [self.plan.values[one].val.int_val for one in found.items]
        if kind in ("DoubleList", "BoolList"):
            return list(found.items)
        if kind == "Null":
            return None
        if kind == "Double":
            return float(found.double_val)  # of an infinity ExecuTorch's reader makes a text
        return next(iter(vars(found).values()))

    def torch_dtype(self, value: int) -> Any:
        """Return the type of a tensor, as PyTorch calls it."""
        return getattr(torch, DTYPES[self.tensor(value).scalar_type.name])
