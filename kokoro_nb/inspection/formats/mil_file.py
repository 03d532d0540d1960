"""Core ML programs: executed by this package's interpreter of MIL, each operator computed again in float64.

Core ML itself runs on macOS alone. What is judged here is the file: what it means in its own number types, against what
it means in float64.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.coreml.coreml_private import read_program
from kokoro_nb.backends.mil import SavedProgram, load_program
from kokoro_nb.backends.mil.interpreter import Interpreter, declared_dtype
from kokoro_nb.backends.mil.rounding import FLOAT32, FLOAT64
from kokoro_nb.backends.signature import TensorSpec, dtype_name
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.captured_program import CapturedProgram, ProgramFacts, ProgramRun
from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram, Observe
from kokoro_nb.inspection.input_maker import MadeInputs, drawn_inputs, fixed
from kokoro_nb.inspection.judged_run import OperatorAlone
from kokoro_nb.inspection.value_types import Arrays, refusing
from kokoro_nb.traces.trace import CONSTANT, INPUT, Given, Hook, Operator

BODY = "it has a program of its own inside, or draws, or holds a state"
NOTE = "Core ML runs on macOS alone; the file was executed by an interpreter of MIL, in the file's number types."
LINES = """\
import coremltools as ct
from coremltools.converters.mil.mil import Builder, Function

with Function({{}}, opset_version=ct.target.iOS17):
    named = {{name[3:]: saved[name] for name in saved.files if name.startswith("in.")}}
    plain = {{name: one.item() if one.ndim == 0 and one.dtype.kind != "f" else one for name, one in named.items()}}
    given = np.asarray(Builder.{operator}(**plain){part}.val)  # coremltools computes what follows from constants
"""


@dataclass(frozen=True, eq=False)
class MilFile(CapturedProgram):
    """A Core ML program.

    Attributes
    ----------
    path : pathlib.Path
        The package, or a model in one file.
    saved : SavedProgram
        What is in it.
    """

    path: Path
    saved: SavedProgram

    @classmethod
    def read(cls, path: Path) -> "MilFile":
        """Read a package, or an ML program in one file.

        Raises
        ------
        InputError
            If it is damaged, packed, or no ML program.
        """
        if path.suffix != ".mlmodel" and path.is_file():
            raise InputError(f"{path} is a file, and a .mlpackage is a folder; unpack it, or give the folder.")
        found = cls(path, _in_one_file(path) if path.suffix == ".mlmodel" else load_program(path))
        _ = found.facts  # an operator that is not known is reported here
        return found

    @cached_property
    def _plain(self) -> Interpreter:
        return Interpreter(self.saved.program, FLOAT32, function=self._function)

    @cached_property
    def _double(self) -> Interpreter:
        return Interpreter(self.saved.program, FLOAT64, function=self._function)

    @property
    def _function(self) -> str:
        return self.saved.spec.description.defaultFunctionName or "main"

    @cached_property
    def _places(self) -> dict[str, tuple[Any, int]]:
        """The operation that gives each result, and which of its results it is."""
        operations = (one for one in self.saved.program.functions[self._function].operations if one.op_type != "const")
        made = ((variable, one, place) for one in operations for place, variable in enumerate(one.outputs))
        return {variable.name: (one, place) for variable, one, place in made if declared_dtype(variable) is not None}

    @cached_property
    def facts(self) -> ProgramFacts:
        """What is known before it is run."""
        variables = self.saved.program.functions[self._function].inputs
        inner = (name for name, (one, _) in self._places.items() if one.blocks or "seed" in one.inputs)
        specs = tuple(TensorSpec(name, *_form(variables[name])) for name in self._plain.inputs)
        outputs = {name: name if name in self._places else "" for name in self._plain.outputs}
        hidden = dict.fromkeys(inner, BODY)
        return ProgramFacts(self.path, "kokoro_nb's interpreter of MIL", specs, outputs, {}, hidden, (NOTE,))

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """The results of the outermost program in order, each under its own name."""
        found = []
        for name, (operation, place) in self._places.items():
            op = f"{operation.op_type}[{place}]" if len(operation.outputs) > 1 else operation.op_type
            reads = tuple(dict.fromkeys(self._label(one) for one in _read(operation)))
            found.append(Operator(name, op, "", reads, *_form(operation.outputs[place])))
        return tuple(found)

    def _label(self, variable: Any) -> str:
        if variable.name in self._places:
            return str(variable.name)
        return f"{INPUT if variable.name in self._plain.inputs else CONSTANT}{variable.name}"

    def recompute(self, name: str, inputs: Given, captured: Given, double: bool = True, substitute: Hook = None) -> Any:
        """Compute one operator on its inputs: see `kokoro_nb.traces.trace.Meaning`; nothing is substituted."""
        operation, place = self._places[name]
        results = (self._double if double else self._plain).alone(operation, _given(operation, inputs, captured))
        if results is None:
            raise InputError(f"{name} cannot be computed alone: {BODY}.")
        result = torch.from_numpy(np.array(results[place]))
        dtype = declared_dtype(operation.outputs[place])
        assert dtype is not None
        return result if double or not dtype.is_floating_point else result.to(dtype)

    def made(self, seed: int = 0) -> MadeInputs:
        """Draw inputs; integers stay below what they look up."""
        bounds = {}
        for operation, _ in self._places.values():
            if operation.op_type.startswith("gather"):
                table, indices = operation.inputs["x"], operation.inputs["indices"]
                axis = operation.inputs.get("axis")
                bounds[indices.name] = int(table.shape[0 if axis is None or axis.val is None else int(axis.val)])
        return drawn_inputs(self.facts.inputs, seed, bounds)

    def run(self, inputs: Arrays) -> ProgramRun:
        """Run it in the number types of the file."""
        captured: dict[str, np.ndarray] = {}
        outputs = self._run(self._plain, inputs, lambda name, value: captured.update({name: np.array(value)}))
        return ProgramRun(captured, outputs)

    def _run(self, interpreter: Interpreter, inputs: Arrays, observe: Observe) -> dict[str, np.ndarray]:
        def seen(_type: str, _name: str, _given: Mapping[str, Any], results: Mapping[str, Any]) -> None:
            for name in filter(self._places.__contains__, results):
                observe(name, results[name])

        with refusing(f"{self.path} cannot be executed: {{}}.", _with_note), quietly():
            return interpreter.run(inputs, seen)

    def alone(self, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
        """Return the inputs of one operator, for a program of MIL that holds it alone.

        Raises
        ------
        InputError
            If it takes a list of values.
        """
        operation, place = self._places[name]
        given = _given(operation, inputs, captured)
        if any(isinstance(one, list) for one in given.values()):
            raise InputError("it takes a list of values.")
        values = {f"in.{key}": one for key, one in given.items()}
        part = f"[{place}]" if len(operation.outputs) > 1 else ""
        return OperatorAlone("coremltools", LINES.format(operator=operation.op_type, part=part), values)

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program."""
        nodes = []
        for index, one in enumerate(self.operators):
            operation, _ = self._places[one.name]
            reads = tuple(name.removeprefix(INPUT) for name in one.inputs if not name.startswith(CONSTANT))
            whole = one.op.startswith("constexpr")  # integers and their scales, and nothing else
            known = {key: each for key, each in operation.inputs.items() if getattr(each, "val", None) is not None}
            held = {key: (each.name, np.asarray(each.val)) for key, each in known.items()}
            constants = tuple(each for each in held.values() if whole or each[1].dtype.kind == "f")
            texts = {key: array.tolist() for key, (_, array) in held.items() if array.dtype.kind in "ibU"}
            nodes.append(ComparedNode(index, one.name, one.op, reads, (one.name,), constants, texts))
        about = self.inputs, tuple(self.facts.outputs.values()), tuple(nodes), partial(self._run, self._double)
        return ComparedProgram(self.path.name, *about, next(iter(self._plain.unseeded), ""))


def _given(operation: Any, inputs: Given, captured: Given) -> dict[str, Any]:
    """Return the inputs of an operation, by MIL's names, as far as it is known."""

    def value(variable: Any) -> Any:
        if isinstance(variable, list | tuple):
            return [value(one) for one in variable]
        known = captured.get(variable.name, inputs.get(variable.name, variable.val))
        return None if known is None else np.asarray(known)

    found = {key: value(one) for key, one in operation.inputs.items() if not key.startswith("_")}
    return {key: one for key, one in found.items() if one is not None}


def _form(variable: Any) -> tuple[tuple[int, ...], str]:
    """Return the shape and the type of a variable."""
    return fixed(variable.shape), dtype_name(declared_dtype(variable))


def _read(operation: Any) -> Iterator[Any]:
    for name, value in operation.inputs.items():
        if not name.startswith("_"):
            yield from value if isinstance(value, list | tuple) else [value]


def _with_note(error: Exception) -> str:
    return f"{error} {getattr(error, '__notes__', [''])[0]}"


def _in_one_file(path: Path) -> SavedProgram:
    with refusing(f"{path} is no Core ML model, or it is damaged: {{}}.", str), quietly():
        import coremltools as ct

        spec = ct.utils.load_spec(str(path))
        kind = spec.WhichOneof("Type")
        program = read_program(spec, str(path.parent)) if kind == "mlProgram" else None
    if program is None:
        raise InputError(f"{path} holds a Core ML model of kind {kind or 'none'}, not an ML program.")
    return SavedProgram(spec, program)
