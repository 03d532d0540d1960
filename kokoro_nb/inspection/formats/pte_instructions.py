"""The instructions of a .pte file, and ExecuTorch's operators as functions of their arguments."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.executorch.tracing import DTYPES as TRACED
from kokoro_nb.backends.exported import tensors_in
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.formats.xnnpack_graph import XnnDelegate
from kokoro_nb.inspection.value_types import refusing
from kokoro_nb.torch_private import schema
from kokoro_nb.traces.trace import CONSTANT, INPUT, Operator

Function = Callable[..., Any]


class FunctionalOperator:
    """An operator of the form ``name.out`` called without the memory that it writes to.

    It has the parts of a PyTorch operator that `kokoro_nb.locate.rounding_bound` looks at.

    Parameters
    ----------
    name : str
        Such as ``aten::add.out``.
    results : sequence of torch.dtype
        The types that the file declares of its results.

    Raises
    ------
    InputError
        If neither PyTorch nor this module has an operator of that name.
    """

    def __init__(self, name: str, results: Sequence[Any]):
        self.name, self._results = name, results
        stem, _, overload = name.partition(".")
        self.is_view = stem.endswith(("_copy", "et_view", "_clone_dim_order"))  # rounds nothing
        if stem in OWN:
            self._function: Any = OWN[stem]
            known = [SimpleNamespace(name=one, default_value=None) for one in signature(OWN[stem]).parameters]
            self._schema, self._outs = SimpleNamespace(arguments=known), []
            return
        namespace, _, plain = stem.partition("::")
        with refusing(f"the operator {name} is not known here", kinds=AttributeError):
            self._function = getattr(getattr(getattr(torch.ops, namespace), plain), overload or "default")
        arguments = schema(self._function).arguments
        self._schema = SimpleNamespace(arguments=[one for one in arguments if not one.is_out])
        self._outs = [one for one in arguments if one.is_out]

    def __str__(self) -> str:
        return self.name.replace("::", ".")

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Compute it; results are of the type of the widest float among its arguments."""
        named |= zip((one.name for one in self._schema.arguments), args, strict=False)
        if not self._outs:
            return self._function(**named)
        dtypes = [one.dtype for one in tensors_in(named) if one.is_floating_point()]
        kind = torch.float64 if torch.float64 in dtypes else next(iter(dtypes), torch.int64)
        kinds = [kind if one.is_floating_point and dtypes else one for one in self._results]
        outs = [torch.empty(0, dtype=one) for one in kinds]
        if "List" in str(self._outs[0].type):
            self._function(**named, **{self._outs[0].name: outs})
            return tuple(outs)
        return self._function(**named, **dict(zip((one.name for one in self._outs), outs, strict=True)))


def _along(values: Any, input: Any, axis: int) -> Any:
    return 0 if values is None else values.reshape([-1 if k == axis % input.ndim else 1 for k in range(input.ndim)])


def _quantised(input: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    return (torch.round(input / scale) + zero_point).clamp(low, high)


def _quantised_along(input: Any, scales: Any, zero_points: Any, axis: int, low: int, high: int) -> Any:
    return _quantised(input, _along(scales, input, axis), _along(zero_points, input, axis), low, high)


def _dequantised(input: Any, scales: Any, zero_points: Any, axis: int) -> Any:
    return (input.double() - _along(zero_points, input, axis)) * _along(scales, input, axis)


OWN: dict[str, Function] = {
    **dict.fromkeys(("executorch_prim::et_view", "aten::view_copy"), lambda self, size: self.reshape(size)),
    "aten::copy_": lambda self, src: src.expand(self.shape),
    "dim_order_ops::_to_dim_order_copy": lambda self: self,
    "dim_order_ops::_clone_dim_order": lambda self: self,
    "quantized_decomposed::quantize_per_tensor": _quantised,
    "quantized_decomposed::quantize_per_channel": _quantised_along,
    "quantized_decomposed::dequantize_per_tensor": lambda x, scale, zero_point: (x.double() - zero_point) * scale,
    "quantized_decomposed::dequantize_per_channel": _dequantised,
}
"""Operators of ExecuTorch that PyTorch has not: what each computes of the first of its arguments, in their order."""


DTYPES = {**TRACED, "UINT16": "uint16"}
HIDDEN = "a delegate ({}) computes it, and shows its results alone"


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
    sources : dict of int to str
        For each tensor that it reads the name of what was last put there: views share memory. Constants and the states
        that a program starts with are not among them.
    """

    number: int
    operator: FunctionalOperator | XnnDelegate | None
    label: str
    arguments: Mapping[str, int]
    results: tuple[int, ...]
    reads: tuple[int, ...]
    reason: str = ""
    sources: Mapping[int, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its results."""
        stem = f"{self.number}:{self.label.split('::')[-1].split('.')[0]}"
        return (stem,) if len(self.results) == 1 else tuple(f"{stem}[{k}]" for k in range(len(self.results)))

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
    named: Mapping[str, bytes]

    @property
    def plan(self) -> Any:
        """The method."""
        return self.program.execution_plan[0]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The instructions in order."""
        return self._flow[0]

    @property
    def states(self) -> frozenset[int]:
        """The tensors that are read before the instruction that writes them: ExecuTorch starts them with zeros."""
        return self._flow[2]

    @cached_property
    def _flow(self) -> tuple[tuple[Step, ...], dict[int, str], frozenset[int]]:
        """Return the instructions, the name of each value that is made, in order, and the states."""
        made = {value: f"{INPUT}input_{k}" for k, value in enumerate(self.plan.inputs)}
        steps, early = [], set()
        for number, one in enumerate(self.plan.chains[0].instructions):
            step = self._step(number, one.instr_args, made)
            sources = {value: self._source(value, made) for value in step.reads if self._constant(value) is None}
            early |= {value for value, source in sources.items() if source is None}
            steps.append(replace(step, sources={key: made[one] for key, one in sources.items() if one is not None}))
            for value, name in zip(step.results, step.names, strict=True):
                made.pop(value, None)  # what is written again is the last there
                made[value] = name
        for value in early - made.keys():
            raise KeyError(value)
        return tuple(steps), made, frozenset(early)

    def last(self, value: int) -> str:
        """Return the name of what is in the memory of a value in the end; empty where nothing was put there."""
        made = self._flow[1]
        source = self._source(value, made)
        return "" if source is None else made[source]

    def _source(self, value: int, made: Collection[int]) -> int | None:
        """Return the value among those made so far that lies in the same memory, the last of them."""
        place = None if value in made else self._place(value)
        if place is None:
            return value if value in made else None
        return next((one for one in reversed(list(made)) if self._place(one) == place), None)

    def _place(self, value: int) -> tuple[int, int, int] | None:
        about = getattr(self.tensor(value), "allocation_info", None)
        return None if about is None else (about.memory_id, about.memory_offset_low, about.memory_offset_high)

    def _step(self, number: int, call: Any, made: Mapping[int, str]) -> Step:
        kind = type(call).__name__
        if kind == "DelegateCall":
            return self._delegate(number, call, made)
        if kind != "KernelCall":
            return Step(number, None, kind, {}, (), (), "it is no call of a kernel")
        called = self.plan.operators[call.op_index]
        label = f"{called.name}.{called.overload}" if called.overload else called.name
        last = self.plan.values[call.args[-1]].val
        results = tuple(last.items) if type(last).__name__ == "TensorList" else (call.args[-1],)
        try:
            operator = FunctionalOperator(label, [self.torch_dtype(one) for one in results])
        except InputError as error:
            given = tuple(one for one in call.args if self.tensor(one) is not None and one not in results)
            return Step(number, None, label, {}, results, given, str(error))
        arguments = dict(zip((one.name for one in schema(operator).arguments), call.args, strict=False))
        reads: list[int] = []
        for value in arguments.values():
            self.argument(value, reads.append)
        return Step(number, operator, label, arguments, results, tuple(reads))

    def _delegate(self, number: int, call: Any, made: Mapping[int, str]) -> Step:
        """Return a call of a delegate; one that is not known gives the last tensors that nothing before it has made."""
        about = self.plan.delegates[call.delegate_index]
        tensors = [self.tensor(one) for one in call.args]
        reason = HIDDEN.format(about.id)
        if about.id == XnnDelegate.name:
            payload = bytes(self.program.backend_delegate_data[about.processed.index].data)
            try:
                inside = XnnDelegate.read(payload, self.named, [one and tuple(one.sizes) for one in tensors])
                arguments = {f"input_{one.external}": call.args[one.external] for one in inside.inputs}
                results = tuple(call.args[one.external] for one in inside.outputs)
                return Step(number, inside, about.id, arguments, results, tuple(arguments.values()))
            except InputError as error:
                reason += f"; {error}"
        given = [value for value, tensor in zip(call.args, tensors, strict=True) if tensor is not None]
        fresh = [value for value in given if self._constant(value) is None]
        # what it reads comes first, and it gives something
        sources = [self._source(value, made) for value in fresh[:-1]]
        read = [k for k, one in enumerate(sources) if one is not None and self.count(one) == self.count(fresh[k])]
        results = tuple(fresh[max(read, default=-1) + 1 :])
        return Step(number, None, about.id, {}, results, tuple(one for one in given if one not in results), reason)

    def count(self, value: int) -> int:
        """Return how many elements a tensor has."""
        return int(np.prod(self.tensor(value).sizes, dtype=int))

    def tensor(self, value: int) -> Any:
        """Return what the file says of a tensor; None of any other value."""
        found = self.plan.values[value].val
        return found if type(found).__name__ == "Tensor" else None

    def stored(self, value: int) -> np.ndarray | None:
        """Return a constant, or the zeros that a state starts with; None of what is computed."""
        return np.zeros(self.tensor(value).sizes, self.dtype(value)) if value in self.states else self._constant(value)

    def _constant(self, value: int) -> np.ndarray | None:
        tensor = self.tensor(value)
        if tensor.data_buffer_idx == 0 or tensor.allocation_info is not None:
            return None
        data = self.program.constant_buffer[tensor.data_buffer_idx].storage
        flat, order = np.frombuffer(bytes(data), self.dtype(value))[: self.count(value)], list(tensor.dim_order)
        return flat.reshape([tensor.sizes[k] for k in order]).transpose(np.argsort(order))

    @cached_property
    def by_name(self) -> dict[str, tuple[Step, int]]:
        """The instruction that gives each result, and which of its results it is."""
        return {name: (step, k) for step in self.steps for k, name in enumerate(step.names)}

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """All of them, in the order of execution; a delegate's results are its."""
        found = []
        for name, (step, place) in self.by_name.items():
            value = step.results[place]
            reads = dict.fromkeys(step.sources.get(one, f"{CONSTANT}value_{one}") for one in step.reads)
            form = tuple(self.tensor(value).sizes), self.dtype(value)
            found.append(Operator(name, step.label, "", tuple(reads), *form))
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
        if kind == "Double":
            return float(found.double_val)  # of an infinity ExecuTorch's reader makes a text
        return next(iter(vars(found).values()), None)  # a number, a text, or a list of them

    def dtype(self, value: int) -> str:
        """Return the type of a tensor, as NumPy calls it."""
        return DTYPES[self.tensor(value).scalar_type.name]

    def torch_dtype(self, value: int) -> Any:
        """Return the type of a tensor, as PyTorch calls it."""
        return getattr(torch, self.dtype(value))
