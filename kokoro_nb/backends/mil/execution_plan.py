"""A MIL program prepared for execution."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.backends.mil.values import constant, declared_dtype
from kokoro_nb.errors import InputError


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

    def all_operations(self) -> Iterator[PlannedOperation]:
        """Return every operation, those of nested programs too."""
        for planned in self.operations.values():
            yield from planned

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
                raise InputError(
                    f"The operator '{operation.name}' is of type {operation.op_type}, which the reference for Core ML "
                    "does not execute; convert the model without it, or add it to kokoro_nb.backends.mil.operators."
                )
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
