"""A MIL program prepared for execution."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends.coreml.coreml_private import mil_types
from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.backends.mil.operators.registry import StateContent
from kokoro_nb.errors import InputError


def torch_dtype(primitive: Any) -> torch.dtype:
    """Return torch's dtype for a primitive type of MIL; integers of fewer than 8 bits are stored in 8."""
    return getattr(torch, np.dtype(mil_types().nptype_from_builtin(primitive)).name)


def declared_dtype(variable: Any) -> torch.dtype | None:
    """Return the dtype that a program declares of a variable; None of a list, a state or a text."""
    types, kind = mil_types(), variable.sym_type
    if types.is_tensor(kind):
        kind = kind.get_primitive()
    return None if kind == types.str or types.is_list(kind) or types.is_state(kind) else torch_dtype(kind)


def is_list(variable: Any) -> bool:
    """Return whether a variable is a list of tensors."""
    return bool(mil_types().is_list(variable.sym_type))


def fits(shape: tuple[int, ...], declared: tuple[Any, ...]) -> bool:
    """Return whether a shape is the declared one; a symbol there stands for any size.

    >>> fits((2, 3), (2, 3)), fits((2, 3), (2, 4)), fits((1,), ())
    (True, False, False)
    """
    return len(shape) == len(declared) and all(
        not isinstance(size, int | np.integer | float) or size == have
        for have, size in zip(shape, declared, strict=True)
    )


def constant(variable: Any) -> Any:
    """Return the value of a constant: a tensor that shares its memory, a text, or a list of these."""
    value = variable.val
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "US":
        return array.tolist()
    array = array.view(np.dtype(array.dtype.str))  # without coremltools' mark of fewer than 8 bits
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for somebody to look at: tensors, and the content of states, as read-only arrays."""
    return {name: _array(value) for name, value in values.items()}


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(one) for one in value]
    value = value.content if isinstance(value, StateContent) else value
    if not isinstance(value, Tensor):
        return value
    array = value.numpy().view()
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class PlannedOperation:
    """One operation.

    Attributes
    ----------
    operation : coremltools.converters.mil.mil.Operation
        The operation.
    implementation : callable
        What executes it.
    inputs : dict
        Its variables, or lists of them, by MIL's names.
    dtypes : tuple of torch.dtype or None
        What the program declares of each output.
    done_with : tuple
        Variables that nothing reads after it.
    """

    operation: Any
    implementation: Callable[..., Any]
    inputs: dict[str, Any]
    dtypes: tuple[torch.dtype | None, ...]
    done_with: tuple[Any, ...]


@dataclass(frozen=True)
class ExecutionPlan:
    """The operations of a function and of each program nested in it, in order, and the values of all constants."""

    operations: dict[Any, list[PlannedOperation]] = field(default_factory=dict)
    constants: dict[Any, Any] = field(default_factory=dict)

    def add(self, block: Any) -> None:
        """Prepare a function, or a program nested in one.

        Raises
        ------
        InputError
            If an operator is of a type that cannot be executed.
        """
        operations = []
        for operation in block.operations:
            if operation.op_type == "const":
                self.constants[operation.outputs[0]] = constant(operation.outputs[0])
            elif operation.op_type in OPERATORS:
                operations.append(operation)
                for nested in operation.blocks:
                    self.add(nested)
            else:
                what = f"The operator '{operation.name}' is of type {operation.op_type}"
                what += ", which the reference for Core ML does not execute"
                raise InputError(f"{what}; convert the model without it.")
        self.operations[block] = [
            PlannedOperation(
                operation,
                OPERATORS[operation.op_type],
                {name: value for name, value in operation.inputs.items() if not name.startswith("_")},
                tuple(declared_dtype(output) for output in operation.outputs),
                tuple(done),
            )
            for operation, done in zip(operations, _done_with(block, operations), strict=True)
        ]


def _done_with(block: Any, operations: list[Any]) -> list[list[Any]]:
    """Return, for each operation, the variables that are made in the program and read no more after it."""
    last: dict[Any, int] = {}
    for number, operation in enumerate(operations):
        last |= dict.fromkeys([*operation.outputs, *_read(operation)], number)
    made = {output for operation in operations for output in operation.outputs}
    done: list[list[Any]] = [[] for _ in operations]
    for variable in made - set(block.outputs):
        done[last[variable]].append(variable)
    return done


def _read(operation: Any) -> Iterator[Any]:
    """Return the variables that an operation reads, and the programs nested in it."""
    for value in operation.inputs.values():
        yield from value if isinstance(value, list | tuple) else [value]
    for nested in operation.blocks:
        yield from nested.outputs
        for inner in nested.operations:
            yield from _read(inner)
