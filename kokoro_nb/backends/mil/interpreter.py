"""A MIL program executed operator by operator."""

import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends.coreml.coreml_private import mil_types
from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.backends.mil.operators.registry import OperatorSite, StateContent
from kokoro_nb.backends.mil.rounding import FLOAT32, Arithmetic
from kokoro_nb.backends.signature import require_names
from kokoro_nb.errors import InputError, noted

Observer = Callable[[str, str, Mapping[str, Any], Mapping[str, Any]], None]
UNSEEDED = -1


def torch_dtype(primitive: Any) -> torch.dtype:
    """Return torch's dtype for a primitive type of MIL; integers of fewer than 8 bits are stored in 8."""
    return getattr(torch, np.dtype(mil_types().nptype_from_builtin(primitive)).name)


def declared_dtype(variable: Any) -> torch.dtype | None:
    """Return the dtype that a program declares of a variable; None of a list, a state or a text."""
    types, kind = mil_types(), variable.sym_type
    if types.is_tensor(kind):
        kind = kind.get_primitive()
    return None if kind == types.str or types.is_list(kind) or types.is_state(kind) else torch_dtype(kind)


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
    array = np.asarray(variable.val)
    if array.dtype.kind in "US":
        return array.tolist()
    array = array.view(np.dtype(array.dtype.str))  # without coremltools' mark of fewer than 8 bits
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for somebody to look at: tensors, and the content of states, as read-only arrays."""
    return {name: _each(_array, value) for name, value in values.items()}


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """Return what a function makes of a value, or of each in a list, one in another."""
    return [_each(function, one) for one in value] if isinstance(value, list | tuple) else function(value)


def _array(value: Any) -> Any:
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


class Interpreter:
    """Runs one function of a MIL program, any number of times.

    Parameters
    ----------
    program : coremltools.converters.mil.Program
        `SavedProgram.program`, or one that was never saved.
    arithmetic : Arithmetic
        What numbers are computed and stored in.
    function : str
        Name of the function.

    Attributes
    ----------
    inputs, outputs, states : tuple of str
        Their names, in order.
    unseeded : tuple of str
        Random operators without a seed of their own, of which no two runtimes draw the same. A warning names them. They
        draw other numbers in every run.

    Raises
    ------
    InputError
        If an operator is of a type that cannot be executed.
    """

    def __init__(self, program: Any, arithmetic: Arithmetic = FLOAT32, function: str = "main"):
        self.arithmetic = arithmetic
        self._drawn = torch.Generator().manual_seed(0)  # what has no seed draws anew in each call, as in Core ML
        self._function = program.functions[function]
        self._constants: dict[Any, Any] = {}
        self._blocks: dict[Any, list[PlannedOperation]] = {}
        self._plan(self._function)
        self._planned = {one.operation: one for block in self._blocks.values() for one in block}
        variables = self._function.inputs
        # a state alone is neither a tensor nor a number
        self.states = tuple(name for name, variable in variables.items() if declared_dtype(variable) is None)
        self.inputs = tuple(name for name in variables if name not in self.states)
        self.outputs = tuple(variable.name for variable in self._function.outputs)
        self.unseeded = tuple(
            one.operation.name
            for one in self._planned.values()
            if one.operation.op_type.startswith("random_") and int(self._constants[one.inputs["seed"]]) == UNSEEDED
        )
        if self.unseeded:
            warnings.warn(
                f"The program draws random numbers without a seed ({', '.join(self.unseeded)}), and those drawn here "
                "are not Core ML's; make the noise an input of the model.",
                stacklevel=2,
            )

    def _plan(self, block: Any) -> None:
        """Prepare the operations of a function, or of a program nested in one, in order."""
        operations = []
        for operation in block.operations:
            if operation.op_type == "const":
                self._constants[operation.outputs[0]] = self.arithmetic.constant(constant(operation.outputs[0]))
            elif operation.op_type in OPERATORS:
                operations.append(operation)
                for nested in operation.blocks:
                    self._plan(nested)
            else:
                what = f"The operator '{operation.name}' is of type {operation.op_type}"
                what += ", which the reference for Core ML does not execute"
                raise InputError(f"{what}; convert the model without it.")
        self._blocks[block] = [
            PlannedOperation(
                operation,
                OPERATORS[operation.op_type],
                {name: value for name, value in operation.inputs.items() if not name.startswith("_")},
                tuple(declared_dtype(output) for output in operation.outputs),
                tuple(done),
            )
            for operation, done in zip(operations, _done_with(block, operations), strict=True)
        ]

    def run(self, inputs: Mapping[str, np.ndarray], observe: Observer | None = None) -> dict[str, np.ndarray]:
        """Execute the function once; all states begin as zeros.

        Parameters
        ----------
        inputs : mapping
            Array of each input by its name, in the shape and dtype that the program declares. For an integer any
            integer dtype will do; with float64 arithmetic, for a float any float.
        observe : callable, optional
            Called as ``observe(type, name, inputs, outputs)`` after each operator, those of nested programs included,
            constants not: its type, the name of the operation, and its values by name, as read-only arrays in the dtype
            in which they are stored; a state is shown as its content afterwards.

        Returns
        -------
        dict
            Array of each output by its name.

        Raises
        ------
        InputError
            If the inputs are not those of the program, or an index in it is out of range.
        """
        require_names(inputs, self.inputs)
        given = {name: StateContent(self._content(name)) for name in self.states}
        given |= {name: self._input(name, inputs[name]) for name in self.inputs}
        values = ChainMap({self._function.inputs[name]: value for name, value in given.items()}, self._constants)
        with torch.no_grad():
            results = self._run(self._function, values, observe, self._drawn)
        return {name: np.array(result.numpy()) for name, result in zip(self.outputs, results, strict=True)}

    def alone(self, operation: Any, inputs: Mapping[str, Any]) -> list[np.ndarray] | None:
        """Execute one operation of the program on any values; its results are not rounded to what the file declares.

        Parameters
        ----------
        operation : coremltools.converters.mil.mil.Operation
            The operation; constants among its inputs are those of the program.
        inputs : mapping
            Its other inputs by MIL's names: arrays, or lists of arrays, in any precision.

        Returns
        -------
        list of numpy.ndarray or None
            Its results. None where they do not follow from `inputs` (conditions, loops, states, random numbers).
        """
        planned = self._planned[operation]
        values = ChainMap[Any, Any]({}, self._constants)
        for name, value in inputs.items():
            variable = planned.inputs[name]
            pairs = zip(variable, value, strict=True) if isinstance(variable, list | tuple) else [(variable, value)]
            made = {one: torch.from_numpy(np.array(own)) for one, own in pairs if one not in self._constants}
            values |= {one: self.arithmetic.constant(tensor) for one, tensor in made.items()}
        known = all(one in values for one in _read(operation))
        if operation.blocks or "seed" in planned.inputs or None in planned.dtypes or not known:
            return None
        dtypes = tuple(self.arithmetic.stored_dtype(dtype) for dtype in planned.dtypes if dtype is not None)
        site = OperatorSite(operation.op_type, operation.name, self._function.opset_version, dtypes)
        with torch.no_grad():
            results = planned.implementation(site, **self._entering(planned, values))
        return [result.numpy() for result in (results if isinstance(results, list | tuple) else [results])]

    def _entering(self, planned: PlannedOperation, values: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the inputs of an operation by MIL's names, as it computes on them."""
        stored = {name: _each(values.__getitem__, variable) for name, variable in planned.inputs.items()}
        return {name: _each(self.arithmetic.entering, value) for name, value in stored.items()}

    def _run(self, block: Any, values: MutableMapping[Any, Any], observe: Observer | None, drawn: Any) -> list[Any]:
        """Execute the operations of a program; `values` holds its constants and what it reads from outside."""

        def nested(inner: Any, arguments: Sequence[Any]) -> list[Any]:
            values.update(zip(inner.inputs, arguments, strict=True))
            return self._run(inner, values, observe, drawn)

        for planned in self._blocks[block]:
            operation = planned.operation
            stored = {name: _each(values.__getitem__, variable) for name, variable in planned.inputs.items()}
            about = (operation.op_type, operation.name, self._function.opset_version, planned.dtypes)
            blocks = tuple(partial(nested, inner) for inner in operation.blocks)
            site = OperatorSite(*about, blocks, _generator(stored, drawn))
            try:
                results = planned.implementation(site, **self._entering(planned, values))
                outputs = self._stored(planned, results)
            except InputError:
                raise
            except Exception as error:
                noted(error, f"in the MIL operator {operation.op_type} '{operation.name}'")
                raise
            values.update(zip(operation.outputs, outputs, strict=True))
            if observe is not None:
                named = {variable.name: values[variable] for variable in operation.outputs}
                observe(operation.op_type, operation.name, shown(stored), shown(named))
            for variable in planned.done_with:
                del values[variable]
        return [values[output] for output in block.outputs]

    def _stored(self, planned: PlannedOperation, results: Any) -> list[Any]:
        """Return an operator's results as they are stored, each of the dtype and shape that the program declares."""
        variables = planned.operation.outputs
        one = len(variables) == 1 and (
            mil_types().is_list(variables[0].sym_type) or not isinstance(results, list | tuple)
        )
        stored = []
        for variable, dtype, result in zip(variables, planned.dtypes, [results] if one else results, strict=True):
            if dtype is not None:
                result = self.arithmetic.stored(result, dtype)
                if not fits(tuple(result.shape), variable.shape):
                    raise ValueError(f"the program declares {tuple(variable.shape)}, it gives {tuple(result.shape)}")
            stored.append(result)
        return stored

    def _input(self, name: str, array: np.ndarray) -> Any:
        """Return an input as a tensor of its own, as it is stored."""
        variable = self._function.inputs[name]
        tensor, declared = torch.tensor(array), declared_dtype(variable)
        assert declared is not None
        if not fits(tuple(tensor.shape), variable.shape):
            shapes = f"{tuple(tensor.shape)}, but the program takes {tuple(variable.shape)}"
            raise InputError(f"Input '{name}' has shape {shapes}.")
        if not self.arithmetic.admits(tensor, declared):
            kinds = f"{tensor.dtype} (or beyond its range), but the program takes {declared}"
            raise InputError(f"Input '{name}' is {kinds}; convert it.")
        return self.arithmetic.stored(tensor, declared)

    def _content(self, name: str) -> Any:
        wrapped = self._function.inputs[name].sym_type.wrapped_type()
        declared = torch_dtype(wrapped.get_primitive())
        return self.arithmetic.stored(torch.zeros(tuple(wrapped.get_shape()), dtype=declared), declared)


def _generator(inputs: Mapping[str, Any], unseeded: Any) -> Any:
    """Return the source of an operator's random numbers; None if it draws none."""
    if "seed" not in inputs:
        return None
    seed = int(inputs["seed"])
    return unseeded if seed == UNSEEDED else torch.Generator().manual_seed(seed)


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
