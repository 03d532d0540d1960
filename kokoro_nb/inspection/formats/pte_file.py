"""ExecuTorch programs: run with the event tracer on, each instruction outside a delegate computed again in float64."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_program import ComparedProgram
from kokoro_nb.inspection.formats.pt2_file import drawn_inputs
from kokoro_nb.inspection.formats.pte_instructions import DTYPES, PteInstructions, Step
from kokoro_nb.inspection.formats.runnable_program import Observe, OperatorAlone, ProgramFacts, ProgramRun
from kokoro_nb.inspection.input_maker import MadeInputs
from kokoro_nb.inspection.semantics.onnx_call import widened
from kokoro_nb.traces.operators import CONSTANT, INPUT, Operator

LARGEST = 4 * 2**30  # bytes of a file


@dataclass(frozen=True, eq=False)
class PteFile:
    """An ExecuTorch program with one method.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    program : executorch.exir.schema.Program
        What is in it.
    named : dict of str to bytes
        Data that its delegates find by name.
    """

    path: Path
    program: Any
    named: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "PteFile":
        """Read a file.

        Raises
        ------
        InputError
            If it is no such file, is cut off or damaged, or has no method, or several chains of instructions.
        """
        size = path.stat().st_size
        if path.is_dir() or not 8 < size <= LARGEST:
            raise InputError(f"{path} has {size:,} bytes; a .pte file has at least 8 and at most {LARGEST:,}.")
        with path.open("rb") as stream:
            if stream.read(8)[4:6] != b"ET":
                raise InputError(f"{path} is no program of ExecuTorch.")
        with quietly():
            from executorch.exir._serialize._program import deserialize_pte_binary

            try:
                whole = deserialize_pte_binary(path.read_bytes())
                program, held = whole.program, whole.named_data
            except Exception as error:  # of any type, by what is damaged
                text = " ".join(str(error).split())[:200]
                raise InputError(f"{path} is cut off or damaged: {type(error).__name__}: {text}.") from error
        if not program.execution_plan or len(program.execution_plan[0].chains) != 1:
            raise InputError(f"{path} holds no method of one chain of instructions.")
        entries = {} if held is None else held.pte_data
        found = cls(path, program, {name: bytes(held.buffers[one.buffer_index]) for name, one in entries.items()})
        try:
            _ = found.operators
        except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is damaged: its instructions name values that it does not have.") from error
        return found

    @cached_property
    def instructions(self) -> PteInstructions:
        """Its one chain of instructions."""
        return PteInstructions(self.program, self.named)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All of them, in the order of execution; a delegate's results are its."""
        return self.instructions.operators

    @cached_property
    def facts(self) -> ProgramFacts:
        """What is known before it is run."""
        from importlib.metadata import version

        specs = []
        for k, value in enumerate(self.instructions.plan.inputs):
            tensor = self.instructions.tensor(value)
            if tensor is None:
                raise InputError(f"{self.path} takes a number, not a tensor, as its input {k}; that is not supported.")
            specs.append(TensorSpec(f"input_{k}", tuple(tensor.sizes), DTYPES[tensor.scalar_type.name]))
        ends = {
            f"output_{k}": self.instructions.name_of(self.instructions.sources[-1, v])
            for k, v in enumerate(self.instructions.plan.outputs)
        }
        keys = {
            name: f"{self.instructions.plan.name}_0_{step.number}"
            for name, (step, _) in self.instructions.by_name.items()
        }
        hidden = {name: step.reason for name, (step, _) in self.instructions.by_name.items() if step.reason}
        delegates = [step for step in self.instructions.steps if step.is_delegate]
        known = sum(step.operator is not None for step in delegates)
        note = (
            f"{len(delegates)} of {len(self.instructions.steps)} instructions are delegates, whose inside no tracer "
            f"shows: {known} of them are judged by what they give, against the graph that the file holds."
        )
        halves = (
            "ExecuTorch's event tracer cannot show a program with float16 values: its instructions were computed by "
            "PyTorch in the file's own types, and the outputs alone are ExecuTorch's."
        )
        return ProgramFacts(
            self.path,
            f"executorch {version('executorch')}",
            self.instructions.plan.name,
            tuple(specs),
            ends,
            keys,
            hidden,
            (*([note] if delegates else []), *([halves] if self._has_halves else [])),
        )

    def recompute(
        self,
        name: str,
        inputs: Mapping[str, Any],
        captured: Mapping[str, Any],
        double: bool = True,
        substitute: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any] | None = None,
    ) -> Any:
        """Compute one operator on what went into it: see `kokoro_nb.traces.trace.Meaning.recompute`."""
        import torch

        step, place = self.instructions.by_name[name]
        if step.operator is None:
            raise InputError(f"{name}: {step.reason}.")

        named = self.given(step, inputs, captured, double)
        with torch.no_grad():
            result: Any = step.operator(**named)
            several = isinstance(result, tuple | list)
            if substitute is not None:
                result = substitute(step.operator, (), named, result)
            found = result[place] if several else result
            if substitute is not None and several:
                found = substitute(getitem, (result, place), {}, found)
        wanted = self.instructions.torch_dtype(step.results[place])
        if double and wanted.is_floating_point:
            return found if found.is_floating_point() else found.double()  # a cast of integers
        return found.to(wanted)

    def given(
        self, step: Step, inputs: Mapping[str, Any], captured: Mapping[str, Any], double: bool = True
    ) -> dict[str, Any]:
        """Return the arguments of an instruction by name, floats in float64 or in the file's own types."""
        import torch

        def tensor(value: int) -> Any:
            stored = self.instructions.stored(value)
            if stored is None:
                source = self.instructions.name_of(self.instructions.sources[step.number, value])
                known = inputs[source.removeprefix(INPUT)] if source.startswith(INPUT) else captured[source]
                stored = np.asarray(known).reshape(self.instructions.tensor(value).sizes)
            found = torch.from_numpy(np.array(stored))
            if found.is_floating_point():
                return found.double() if double else found.to(self.instructions.torch_dtype(value))
            return found

        return {key: self.instructions.argument(value, tensor) for key, value in step.arguments.items()}

    def made_inputs(self, seed: int = 0) -> MadeInputs:
        """Draw inputs; integers stay below what they look up."""
        bounds = {}
        for step in self.instructions.steps:
            if step.label.startswith("aten::embedding"):
                table, indices = (step.arguments[one] for one in ("weight", "indices"))
                source = self.instructions.name_of(self.instructions.sources[step.number, indices])
                bounds[source.removeprefix(INPUT)] = int(self.instructions.tensor(table).sizes[0])
        return drawn_inputs(self.facts.inputs, seed, bounds)

    def run(self, inputs: Mapping[str, np.ndarray]) -> ProgramRun:
        """Run it once in a process of its own, with the event tracer on.

        Raises
        ------
        InputError
            If the runtime stops or crashes.
        """
        from kokoro_nb.backends.executorch.tracing import logged_run

        try:
            run = logged_run(self.path.resolve(), inputs, self.room(), again=True)
        except RuntimeError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise InputError(f"ExecuTorch does not run {self.path}: {lines[-1][:300] if lines else error}") from error
        captured: dict[str, np.ndarray] = {}
        if self._has_halves and not run.logged:
            for operator in self.operators:
                if all(one in captured for one in operator.inputs if not one.startswith((INPUT, CONSTANT))):
                    captured[operator.name] = self.recompute(operator.name, inputs, captured, double=False).numpy()
        for step in self.instructions.steps:
            tensors = run.logged.get(step.number, [])
            if len(tensors) < len(step.results):
                continue
            for place, value in enumerate(step.results):
                found = tensors[place - len(step.results)]
                if found.size == np.prod(self.instructions.tensor(value).sizes, dtype=int):
                    captured[self.instructions.names[value]] = np.array(found).reshape(
                        self.instructions.tensor(value).sizes
                    )
        first, again = ({f"output_{k}": value for k, value in enumerate(one)} for one in (run.outputs, run.again))
        return ProgramRun(captured, first, None if self.instructions.states else again)

    @property
    def _has_halves(self) -> bool:
        """Whether an instruction gives floats of 16 bits."""
        return any("float16" in one.dtype for one in self.operators)

    def room(self) -> int:
        """Return how many bytes the event tracer needs, with room to spare."""
        values = [value for step in self.instructions.steps for value in (*step.results, *step.reads)]
        sizes = [
            np.prod(self.instructions.tensor(one).sizes, dtype=int) * 8 + 256
            for one in (*values, *self.instructions.plan.outputs)
        ]
        return int(2**16 + np.sum(sizes))

    def true(self, inputs: Mapping[str, np.ndarray], observe: Observe) -> None:
        """Compute it in float64 from the start, as far as no delegate is in the way."""
        known: dict[str, np.ndarray] = {}
        wide = {name: widened(value) for name, value in inputs.items()}
        for operator in self.operators:
            step, _ = self.instructions.by_name[operator.name]
            read = [one for one in operator.inputs if not one.startswith((INPUT, CONSTANT))]
            if step.operator is not None and all(one in known for one in read):
                known[operator.name] = self.recompute(operator.name, wide, known).numpy()
                observe(operator.name, known[operator.name])

    def alone(
        self, name: str, inputs: Mapping[str, np.ndarray], captured: Mapping[str, np.ndarray], folder: Path
    ) -> OperatorAlone:
        """Write one instruction as a program of its own."""
        from kokoro_nb.inspection.formats.one_instruction import alone_in_pte

        return alone_in_pte(self, name, inputs, captured, folder)

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program; a delegate's own nodes stand in its place."""
        from kokoro_nb.inspection.formats.pte_comparison import compared_pte

        return compared_pte(self)
