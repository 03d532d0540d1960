"""Which operator of a float16 Core ML program is which of the float32 program, exactly or not at all."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FLOATS = ("fp16", "fp32")
COPY = "_cast_fp16"  # what coremltools adds to the name of an operator that computes in float16
MOVED = ("cast", "transpose")  # operators that it moves, and names anew, after that


@dataclass(frozen=True)
class Counterpart:
    """The result of the float32 program that a result of the float16 program is a copy of.

    Attributes
    ----------
    operation : coremltools.converters.mil.mil.Operation or None
        The operator of the float32 program; None for an input of the program.
    result : str
        Name of the result there, or of the input.
    """

    operation: Any
    result: str


@dataclass(frozen=True)
class Matching:
    """Which results of two programs are the same.

    Attributes
    ----------
    counterparts : dict
        Name of a result of the float16 program -> what it is a copy of.
    inserted : tuple of str
        Casts between the two precisions, which the float32 program does not have.
    unmatched : tuple of str
        Results that could not be matched: of these nothing can be said.
    """

    counterparts: Mapping[str, Counterpart]
    inserted: tuple[str, ...]
    unmatched: tuple[str, ...]


def operations(program: Any) -> Iterator[Any]:
    """Return the operators of a program's main function, in the order of execution, without its constants."""
    return (operation for operation in program.functions["main"].operations if operation.op_type != "const")


def arguments(operation: Any) -> Iterator[Any]:
    """Return the variables that an operator is computed from, constants left out."""
    for value in operation.inputs.values():
        for variable in value if isinstance(value, list | tuple) else [value]:
            if variable.op is None or variable.op.op_type != "const":
                yield variable


def read(operation: Any) -> Iterator[str]:
    """Return the names of the results and inputs that an operator is computed from.

    Constants are left out, and in place of a truth value stands what it was computed from.
    """
    for variable in arguments(operation):
        if variable.op is not None and _is_truth(variable):
            yield from read(variable.op)
        else:
            yield variable.name


def matched(full: Any, half: Any) -> Matching:
    """Match the results of a float16 program with those of the float32 program of the same module.

    A match has the name that coremltools gives an operator's float16 copy, the type of operator and the shapes. The
    cast of an input to float16 is matched with the input; casts from or to truth values or integers, and
    transpositions, are matched with one of the same value.

    Parameters
    ----------
    full, half : coremltools.converters.mil.Program
        As `backends.coreml` saves them.
    """
    named = {operation.name: operation for operation in operations(full)}
    counterparts: dict[str, Counterpart] = {}
    same: dict[str, str] = {}  # a value of the float16 program -> the one of the float32 program
    inserted, unmatched = [], []
    for operation in operations(half):
        found = None
        if operation.op_type not in MOVED:
            found = named.get(operation.name.removesuffix(COPY))
        elif not _rounds(operation):
            found = _moved(operation, same.get(operation.x.name, operation.x.name), named.values())
        elif operation.x.op is None:
            counterparts[operation.outputs[0].name] = Counterpart(None, operation.x.name)
        else:
            inserted.append(operation.outputs[0].name)
        if found is not None and _kind(found) == _kind(operation):
            results = zip(operation.outputs, found.outputs, strict=True)
            counterparts |= {own.name: Counterpart(found, other.name) for own, other in results}
            same |= {own.name: other.name for own, other in zip(operation.outputs, found.outputs, strict=True)}
        elif _rounds(operation):
            same[operation.outputs[0].name] = same.get(operation.x.name, operation.x.name)
        else:
            unmatched += [variable.name for variable in operation.outputs]
    return Matching(counterparts, tuple(inserted), tuple(unmatched))


def _kind(operation: Any) -> tuple[str, list[tuple[Any, ...]]]:
    return operation.op_type, [tuple(variable.shape) for variable in operation.outputs]


def _rounds(operation: Any) -> bool:
    """Return whether an operator is a cast between the two precisions, which the float32 program does not have."""
    return operation.op_type == "cast" and _is_float(operation.x) and _is_float(operation.outputs[0])


def _moved(operation: Any, read: str, others: Iterable[Any]) -> Any:
    """Return the operator of the float32 program that does the same to the value `read`; None if there is none."""
    for other in others:
        if other.op_type == operation.op_type and other.x.name == read:
            if operation.op_type == "cast" and _is_float(other.outputs[0]) == _is_float(operation.outputs[0]):
                return other
            if operation.op_type == "transpose" and list(other.perm.val) == list(operation.perm.val):
                return other
    return None


def _is_truth(variable: Any) -> bool:
    from coremltools.converters.mil.mil import types

    return types.is_bool(variable.dtype)


def _is_float(variable: Any) -> bool:
    from coremltools.converters.mil.mil import types

    return types.builtin_to_string(variable.dtype) in FLOATS
