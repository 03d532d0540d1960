"""A MIL program executed operator by operator."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kokoro_nb.backends.mil.rounding import FLOAT32, Arithmetic
from kokoro_nb.errors import InputError

Observer = Callable[[str, str, Mapping[str, Any], Mapping[str, Any]], None]
UNSEEDED = -1


class Interpreter:
    """Runs one function of a MIL program, any number of times.

    Parameters
    ----------
    program : coremltools.converters.mil.Program
        `SavedProgram.program`, or one that was never saved.
    arithmetic : Arithmetic
        What numbers are computed and kept in.
    seed : int
        For random operators without a seed of their own; they begin anew with it in every run.
    function : str
        Name of the function.

    Attributes
    ----------
    inputs, outputs, states : tuple of str
        Their names, in order.
    unseeded : tuple of str
        Random operators without a seed of their own, of which no two runtimes draw the same. A warning names them.

    Raises
    ------
    InputError
        If an operator is of a type that cannot be executed.
    """

    def __init__(self, program: Any, arithmetic: Arithmetic = FLOAT32, seed: int = 0, function: str = "main"):
        from kokoro_nb.backends.mil.execution_plan import planned
        from kokoro_nb.backends.mil.values import is_state

        self.arithmetic, self.seed = arithmetic, seed
        self._function = program.functions[function]
        self._opset = int(self._function.opset_version)
        self._plan = planned(self._function)
        self._constants = {v: arithmetic.constant(value) for v, value in self._plan.constants.items()}
        variables = self._function.inputs
        self.states = tuple(name for name, variable in variables.items() if is_state(variable))
        self.inputs = tuple(name for name in variables if name not in self.states)
        self.outputs = tuple(variable.name for variable in self._function.outputs)
        self.unseeded = tuple(
            step.operation.name
            for step in self._plan.all_steps()
            if step.operation.op_type.startswith("random_") and int(self._constants[step.inputs["seed"]]) == UNSEEDED
        )
        if self.unseeded:
            warnings.warn(
                f"The program draws random numbers without a seed ({', '.join(self.unseeded)}), and those drawn here "
                "are not Core ML's; make the noise an input of the model.",
                stacklevel=2,
            )

    def run(
        self,
        inputs: Mapping[str, np.ndarray],
        observe: Observer | None = None,
        state: dict[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """Execute the function once.

        Parameters
        ----------
        inputs : mapping
            Array of each input by its name, in the shape and dtype that the program declares. For an integer any
            integer dtype will do; with float64 arithmetic, for a float any float.
        observe : callable, optional
            Called as ``observe(type, name, inputs, outputs)`` after each operator, those of nested programs included,
            constants not: its type, the name of the operation, and its values by name, as read-only arrays in the dtype
            in which they are stored; a state is shown as its content afterwards.
        state : dict, optional
            Array of each state by its name; what the program writes is put there. Without it all states begin as zeros.

        Returns
        -------
        dict
            Array of each output by its name.

        Raises
        ------
        InputError
            If the inputs or states are not those of the program, or an index in it is out of range.
        """
        import torch

        from kokoro_nb.backends.mil.operators.registry import Slot

        slots = {name: Slot(self._content(name, state)) for name in self.states}
        values: dict[Any, Any] = {self._function.inputs[name]: slot for name, slot in slots.items()}
        values |= {self._function.inputs[name]: tensor for name, tensor in self._checked(inputs).items()}
        with torch.no_grad():
            results = self._run(self._function, values, observe, torch.Generator().manual_seed(self.seed))
        if state is not None:
            state.update({name: np.array(slot.content.numpy()) for name, slot in slots.items()})
        return {name: np.array(result.numpy()) for name, result in zip(self.outputs, results, strict=True)}

    def _run(self, block: Any, values: dict[Any, Any], observe: Observer | None, generator: Any) -> list[Any]:
        """Execute the operations of a program; `values` holds what it reads from outside."""
        from kokoro_nb.backends.mil.operators.registry import Site
        from kokoro_nb.backends.mil.values import shown

        def nested(inner: Any, arguments: Sequence[Any]) -> list[Any]:
            values.update(zip(inner.inputs, arguments, strict=True))
            return self._run(inner, values, observe, generator)

        for step in self._plan.steps[block]:
            operation = step.operation
            stored = {name: self._value(variable, values) for name, variable in step.inputs.items()}
            drawn = _generator(stored, generator)
            about = (operation.op_type, operation.name)
            site = Site(*about, self._opset, step.dtypes, tuple(operation.blocks), nested, drawn)
            try:
                results = step.implementation(site, **{name: self._entering(value) for name, value in stored.items()})
                outputs = self._kept(step, results)
            except InputError:
                raise
            except Exception as error:
                error.add_note(f"in the MIL operator {operation.op_type} '{operation.name}'")
                raise
            values.update(zip(operation.outputs, outputs, strict=True))
            if observe is not None:
                named = {variable.name: values[variable] for variable in operation.outputs}
                observe(*about, shown(stored), shown(named))
            for variable in step.done_with:
                del values[variable]
        return [self._value(output, values) for output in block.outputs]

    def _value(self, variable: Any, values: Mapping[Any, Any]) -> Any:
        if isinstance(variable, list | tuple):
            return [self._value(one, values) for one in variable]
        return values[variable] if variable in values else self._constants[variable]

    def _entering(self, value: Any) -> Any:
        return [self._entering(one) for one in value] if isinstance(value, list) else self.arithmetic.entering(value)

    def _kept(self, step: Any, results: Any) -> list[Any]:
        """Return an operator's results as they are stored, each of the dtype and shape that the program declares."""
        from kokoro_nb.backends.mil.values import fits, is_list

        variables = step.operation.outputs
        one = len(variables) == 1 and (is_list(variables[0]) or not isinstance(results, list | tuple))
        kept = []
        for variable, dtype, result in zip(variables, step.dtypes, [results] if one else results, strict=True):
            if dtype is not None:
                result = self.arithmetic.kept(result, dtype)
                if not fits(tuple(result.shape), variable.shape):
                    raise ValueError(f"the program declares {tuple(variable.shape)}, it gives {tuple(result.shape)}")
            kept.append(result)
        return kept

    def _checked(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return the inputs as tensors of their own, as they are stored."""
        for name in inputs:
            if name not in self.inputs:
                raise InputError(
                    f"There is no input '{name}'; the program takes {', '.join(self.inputs) or 'nothing'}."
                )
        for name in self.inputs:
            if name not in inputs:
                raise InputError(f"Input '{name}' is missing; the program takes {', '.join(self.inputs)}.")
        return {name: self._stored(name, inputs[name]) for name in self.inputs}

    def _stored(self, name: str, array: np.ndarray) -> Any:
        import torch

        from kokoro_nb.backends.mil.values import declared_dtype, fits

        variable = self._function.inputs[name]
        tensor, declared = torch.tensor(array), declared_dtype(variable)
        assert declared is not None
        if not fits(tuple(tensor.shape), variable.shape):
            raise InputError(
                f"Input '{name}' has shape {tuple(tensor.shape)}, but the program takes {tuple(variable.shape)}."
            )
        if not self.arithmetic.admits(tensor, declared):
            raise InputError(
                f"Input '{name}' is {tensor.dtype} (or beyond its range), but the program takes {declared}; convert it."
            )
        return self.arithmetic.kept(tensor, declared)

    def _content(self, name: str, state: Mapping[str, np.ndarray] | None) -> Any:
        import torch

        from kokoro_nb.backends.mil.values import torch_dtype

        wrapped = self._function.inputs[name].sym_type.wrapped_type()
        declared, shape = torch_dtype(wrapped.get_primitive()), tuple(wrapped.get_shape())
        if state is None:
            return self.arithmetic.kept(torch.zeros(shape, dtype=declared), declared)
        if name not in state or state[name].shape != shape:
            raise InputError(f"State '{name}' is missing, or not of shape {shape}; the program keeps {self.states}.")
        return self.arithmetic.kept(torch.tensor(state[name]), declared)


def _generator(inputs: Mapping[str, Any], unseeded: Any) -> Any:
    """Return the source of an operator's random numbers; None if it draws none."""
    import torch

    if "seed" not in inputs:
        return None
    seed = int(inputs["seed"])
    return unseeded if seed == UNSEEDED else torch.Generator().manual_seed(seed)
