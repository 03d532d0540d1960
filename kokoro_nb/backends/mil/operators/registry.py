"""The table of operators, and how each is called."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from types import NoneType
from typing import Any, get_args

import torch
from torch import Tensor

Value = Any  # a tensor; a str; a list of tensors; a StateContent; None for what was left out
Operator = Callable[..., Any]
OPERATORS: dict[str, Operator] = {}

# Inputs of MIL that no implementation needs: dtypes are declared of the outputs, a seed is in the generator, and an
# index out of range is an error whether or not the file wants indices validated.
UNUSED = {"dtype", "output_dtype", "output_indices_dtype", "seed", "validate_indices"}


@dataclass(frozen=True)
class OperatorSite:
    """One operation of a program, as its implementation sees it.

    Attributes
    ----------
    type, name : str
        Type of the operator, and the name that the operation has in the program.
    opset : int
        Number of the operator set that the program is written in: 6 for iOS 15, 7, 8, 9 for iOS 16, 17, 18.
    dtypes : tuple of torch.dtype or None
        What the file declares of each output; None for what is no tensor.
    blocks : tuple of callable
        Nested programs, of a condition or of a loop: each takes its arguments and returns its outputs as a list.
    generator : torch.Generator or None
        Source of the numbers of a random operator.
    """

    type: str
    name: str
    opset: int
    dtypes: tuple[torch.dtype | None, ...]
    blocks: tuple[Callable[[Sequence[Value]], list[Value]], ...] = ()
    generator: torch.Generator | None = None


@dataclass
class StateContent:
    """The content of a state, which lives from one call to the next."""

    content: Tensor


def operator(*types: str) -> Callable[[Operator], Operator]:
    """Register a function as the implementation of operator `types`.

    Its parameters have the names of MIL's inputs. It is given those that the file has, and the defaults of coremltools
    for those that the file leaves out, unless that default is to have none. A parameter annotated ``int``, ``bool`` or
    ``list[int]`` arrives as such; any other, and those of ``**inputs``, as a tensor in the dtype to compute in,
    constants too, or as a text or a list. A parameter called ``site`` is the `OperatorSite`. It returns the output, or
    a tuple or list of them, and changes no input.
    """

    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(types, _adapted(function)))
        return function

    return register


def table(functions: Mapping[str, Operator]) -> None:
    """Register functions by the type of operator: see `operator`; those of torch take x, or x and y, by position."""
    OPERATORS.update({name: _adapted(function) for name, function in functions.items()})


def _adapted(function: Operator) -> Operator:
    """Return a function as ``implementation(site, **inputs)``, the inputs as the interpreter has them."""
    try:
        parameters = signature(function).parameters
    except ValueError:  # a built-in function of torch
        return lambda _site, **inputs: function(*(inputs[name] for name in ("x", "y") if name in inputs))
    conversions = {name: _conversion(parameter) for name, parameter in parameters.items()}

    @wraps(function)
    def run(_site: OperatorSite, **inputs: Value) -> Any:
        given = {name: conversions.get(name, _same)(value) for name, value in inputs.items() if name not in UNUSED}
        return function(**given, **({"site": _site} if "site" in parameters else {}))

    return run


def _conversion(parameter: Parameter) -> Callable[[Value], Any]:
    parts = get_args(parameter.annotation)
    kind = parts[0] if NoneType in parts else parameter.annotation  # of what may be left out
    known: dict[Any, Callable[[Value], Any]] = {int: int, bool: bool, list[int]: ints}
    return known.get(kind, _same)


def _same(value: Value) -> Value:
    return value


def ints(value: Any) -> list[int]:
    """Return a vector of integers or truth values, or a list of scalars, as Python integers.

    >>> ints(torch.tensor([2, -1], dtype=torch.int32))
    [2, -1]
    """
    return [int(number) for number in (value if isinstance(value, list) else value.reshape(-1).tolist())]
