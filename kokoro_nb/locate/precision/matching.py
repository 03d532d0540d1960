"""Which operator of a float16 Core ML program is which of the float32 program, exactly or not at all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.coreml.naming import before_float16, name_of

FLOATS = ("fp16", "fp32")


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

    A match has the name that coremltools gives a float16 copy (see `backends.coreml.naming`), the type of operator and
    the shape. The cast of an input to float16 is matched with the input. A cast from or to truth values or integers,
    which coremltools names anew, is matched with the one cast of the same value.

    Parameters
    ----------
    full, half : coremltools.converters.mil.Program
        With settled names: as `backends.coreml` saves them.
    """
    results = {variable.name: operation for operation in operations(full) for variable in operation.outputs}
    ends = {variable.name for variable in full.functions["main"].outputs}
    counterparts: dict[str, Counterpart] = {}
    inserted, unmatched = [], []
    for operation in operations(half):
        for place, variable in enumerate(operation.outputs):
            source = _copied(variable, place, operation, results, ends)
            if source is None and operation.op_type == "cast":
                source = _cast(operation, counterparts, results)
            if source is not None:
                counterparts[variable.name] = source
            elif operation.op_type == "cast" and _is_float(operation.x) and _is_float(variable):
                inserted.append(variable.name)
            else:
                unmatched.append(variable.name)
    return Matching(counterparts, tuple(inserted), tuple(unmatched))


def _copied(
    variable: Any, place: int, operation: Any, results: Mapping[str, Any], ends: set[str]
) -> Counterpart | None:
    """Match a result by its name."""
    name = variable.name
    copied = before_float16(name)
    if copied is not None:
        operator, copied_place = copied
        if operator not in results or not copied_place == place < len(results[operator].outputs):
            return None
        name = results[operator].outputs[place].name
    found = results.get(name)
    if found is None or tuple(found.outputs[place].shape) != tuple(variable.shape):
        return None
    # at an output the identity that carries our name becomes the cast back to float32
    same = found.op_type == operation.op_type or (name in ends and (found.op_type, operation.op_type) == OUTPUT)
    return Counterpart(found, name) if same else None


OUTPUT = ("identity", "cast")


def _cast(operation: Any, counterparts: Mapping[str, Counterpart], results: Mapping[str, Any]) -> Counterpart | None:
    """Match a cast of an input, or between other dtypes than the two floats."""
    source, made = operation.x, operation.outputs[0]
    if _is_float(source) and _is_float(made):
        return Counterpart(None, source.name) if source.op is None else None
    read = counterparts[source.name].result if source.name in counterparts else source.name
    casts = [
        found
        for found in results.values()
        if found.op_type == "cast" and found.x.name == read and _is_float(found.outputs[0]) == _is_float(made)
    ]
    return Counterpart(casts[0], name_of(casts[0])) if len(casts) == 1 else None


def _is_truth(variable: Any) -> bool:
    from coremltools.converters.mil.mil import types

    return types.is_bool(variable.dtype)


def _is_float(variable: Any) -> bool:
    from coremltools.converters.mil.mil import types

    return types.builtin_to_string(variable.dtype) in FLOATS
