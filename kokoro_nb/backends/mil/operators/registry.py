"""The table of operators, and what an implementation is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Value = Any  # a tensor; a str; a list of tensors; a Slot; None for what was left out
Operator = Callable[..., Any]
OPERATORS: dict[str, Operator] = {}


@dataclass(frozen=True)
class Site:
    """One operation of a program, as its implementation sees it.

    Attributes
    ----------
    type, name : str
        Type of the operator, and the name that the operation has in the program.
    opset : int
        Number of the operator set that the program is written in: 6 for iOS 15, 7, 8, 9 for iOS 16, 17, 18.
    dtypes : tuple of torch.dtype or None
        What the file declares of each output; None for what is no tensor.
    blocks : tuple
        Nested programs: of a condition, of a loop.
    run : callable
        ``run(block, arguments)`` executes one of them and returns its outputs as a list.
    generator : torch.Generator or None
        Source of the numbers of a random operator.
    """

    type: str
    name: str
    opset: int
    dtypes: tuple[torch.dtype | None, ...]
    blocks: tuple[Any, ...] = ()
    run: Callable[[Any, Sequence[Value]], list[Value]] | None = None
    generator: torch.Generator | None = None


@dataclass
class Slot:
    """The content of a state, which lives from one call to the next."""

    content: Tensor = field(default_factory=lambda: torch.zeros(()))


def operator(*types: str) -> Callable[[Operator], Operator]:
    """Register a function as the implementation of operator `types`.

    It is called with the `Site` and with the operator's inputs by MIL's names: those that the file gives, and the
    defaults of coremltools for those that it leaves out, unless the default is to have none. Tensors come in the dtype
    to compute in, constants among them as tensors too; it returns the output, or a tuple or list of them, and changes
    no input.
    """

    def register(function: Operator) -> Operator:
        for name in types:
            OPERATORS[name] = function
        return function

    return register


def table(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register functions that take tensors alone, by position, in the order in which MIL has its inputs."""
    for name, function in functions.items():
        OPERATORS[name] = _positional(function)


def _positional(function: Callable[..., Any]) -> Operator:
    def run(_site: Site, **inputs: Value) -> Any:
        return function(*(inputs[name] for name in ("x", "y") if name in inputs))

    return run


def ints(value: Any) -> list[int]:
    """Return a vector of integers as Python has them.

    >>> ints(torch.tensor([2, -1], dtype=torch.int32))
    [2, -1]
    """
    return [int(number) for number in value.reshape(-1).tolist()]


def flags(value: Any, count: int) -> list[bool]:
    """Return a vector of truth values as Python has them; `count` times False where it was left out."""
    return [False] * count if value is None else [bool(flag) for flag in value.reshape(-1).tolist()]
