"""ExecuTorch programs as they stand in their files: instructions, facts, and each of them computed again in float64."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import getitem
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.inspection.formats.pt2_file import drawn_inputs
from kokoro_nb.inspection.formats.pte_instructions import DTYPES, PteInstructions, Step
from kokoro_nb.inspection.formats.runnable_program import ProgramFacts
from kokoro_nb.inspection.input_maker import MadeInputs
from kokoro_nb.traces.operators import INPUT, Operator
from kokoro_nb.traces.trace import Given, Substitute

LARGEST = 4 * 2**30  # bytes of a file


@dataclass(frozen=True, eq=False)
class PteContent:
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
    def read(cls, path: Path) -> Self:
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
                raise InputError(f"{path} is cut off or damaged: {one_line(error)}.") from error
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
            (*([note] if delegates else []), *([halves] if self.has_halves else [])),
        )

    def recompute(
        self, name: str, inputs: Given, captured: Given, double: bool = True, substitute: Substitute = None
    ) -> Any:
        """Compute one operator on what went into it: see `kokoro_nb.traces.trace.Meaning.recompute`."""
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

        def tensor(value: int) -> Any:
            stored = self.instructions.stored(value)
            if stored is None:
                source = self.instructions.name_of(self.instructions.sources[step.number, value])
                known = inputs[source.removeprefix(INPUT)] if source.startswith(INPUT) else captured[source]
                stored = np.asarray(known).reshape(self.instructions.tensor(value).sizes)
            found = torch.from_numpy(np.array(stored, order="C"))  # as it lies in ExecuTorch: out variants rely on it
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

    @property
    def has_halves(self) -> bool:
        """Whether an instruction gives floats of 16 bits."""
        return any("float16" in one.dtype for one in self.operators)
