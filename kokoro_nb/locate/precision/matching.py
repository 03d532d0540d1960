"""Which operator of a float16 Core ML program was which of the float32 program, exactly or not at all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.coreml.naming import before_float16, name_of

FLOATS = ("fp16", "fp32")


@dataclass(frozen=True)
class Origin:
    """What a result of the float16 program is a copy of.

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
    """How the operators of two programs belong together.

    Attributes
    ----------
    origins : dict
        Name of a result of the float16 program -> what it is a copy of.
    inserted : tuple of str
        Casts between the two precisions, which the float32 program does not have.
    unmatched : tuple of str
        Results that could not be matched: of these nothing can be said.
    """

    origins: Mapping[str, Origin]
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
    origins: dict[str, Origin] = {}
    inserted, unmatched = [], []
    for operation in operations(half):
        for place, variable in enumerate(operation.outputs):
            origin = _copied(variable, place, operation, results, ends)
            if origin is None and operation.op_type == "cast":
                origin = _cast(operation, origins, results)
            if origin is not None:
                origins[variable.name] = origin
            elif operation.op_type == "cast" and _is_float(operation.x) and _is_float(variable):
                inserted.append(variable.name)
            else:
                unmatched.append(variable.name)
    return Matching(origins, tuple(inserted), tuple(unmatched))


def _copied(variable: Any, place: int, operation: Any, results: Mapping[str, Any], ends: set[str]) -> Origin | None:
    """Match a result by its name."""
    told = before_float16(variable.name)
    if told is None:
        name = variable.name
    elif told.operator in results and told.place == place < len(results[told.operator].outputs):
        name = results[told.operator].outputs[place].name
    else:
        return None
    found = results.get(name)
    if found is None or tuple(found.outputs[place].shape) != tuple(variable.shape):
        return None
    # at an output the identity that carries our name becomes the cast back to float32
    same = found.op_type == operation.op_type or (name in ends and (found.op_type, operation.op_type) == OUTPUT)
    return Origin(found, name) if same else None


OUTPUT = ("identity", "cast")


def _cast(operation: Any, origins: Mapping[str, Origin], results: Mapping[str, Any]) -> Origin | None:
    """Match a cast of an input, or between other dtypes than the two floats."""
    source, made = operation.x, operation.outputs[0]
    if _is_float(source) and _is_float(made):
        return Origin(None, source.name) if source.op is None else None
    read = origins[source.name].result if source.name in origins else source.name
    casts = [
        found
        for found in results.values()
        if found.op_type == "cast" and found.x.name == read and _is_float(found.outputs[0]) == _is_float(made)
    ]
    return Origin(casts[0], name_of(casts[0])) if len(casts) == 1 else None


def _is_truth(variable: Any) -> bool:
    from coremltools.converters.mil.mil import types

    return types.is_bool(variable.dtype)


def _is_float(variable: Any) -> bool:
    from coremltools.converters.mil.mil import types

    return types.builtin_to_string(variable.dtype) in FLOATS
