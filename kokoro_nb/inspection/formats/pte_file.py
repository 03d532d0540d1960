"""ExecuTorch programs: run with the event tracer on, each instruction outside a delegate computed again in float64."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_program import ComparedProgram
from kokoro_nb.inspection.formats.pte_comparison import compared_pte
from kokoro_nb.inspection.formats.pte_content import PteContent
from kokoro_nb.inspection.formats.pte_instructions import DTYPES
from kokoro_nb.inspection.formats.runnable_program import Observe, OperatorAlone, ProgramRun
from kokoro_nb.inspection.semantics.onnx_call import Arrays, widened
from kokoro_nb.traces.operators import CONSTANT, INPUT


class PteFile(PteContent):
    """An ExecuTorch program that is run here, compared with another, and taken apart."""

    def run(self, inputs: Arrays) -> ProgramRun:
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
        if self.has_halves and not run.logged:
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

    def room(self) -> int:
        """Return how many bytes the event tracer needs, with room to spare."""
        values = [value for step in self.instructions.steps for value in (*step.results, *step.reads)]
        sizes = [
            np.prod(self.instructions.tensor(one).sizes, dtype=int) * 8 + 256
            for one in (*values, *self.instructions.plan.outputs)
        ]
        return int(2**16 + np.sum(sizes))

    def true(self, inputs: Arrays, observe: Observe) -> None:
        """Compute it in float64 from the start, as far as no delegate is in the way."""
        known: dict[str, np.ndarray] = {}
        wide = {name: widened(value) for name, value in inputs.items()}
        for operator in self.operators:
            step, _ = self.instructions.by_name[operator.name]
            read = [one for one in operator.inputs if not one.startswith((INPUT, CONSTANT))]
            if step.operator is not None and all(one in known for one in read):
                known[operator.name] = self.recompute(operator.name, wide, known).numpy()
                observe(operator.name, known[operator.name])

    def alone(self, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
        """Write one instruction as a program of its own."""
        return alone_in_pte(self, name, inputs, captured, folder)

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program; a delegate's own nodes stand in its place."""
        return compared_pte(self)


LINES = """\
import torch
{kernels}from executorch.runtime import Runtime

program = Runtime.get().load_program(here / "one_node.pte")
inputs = [torch.from_numpy(saved[f"in{{k}}"]) for k in range({count})]
given = program.load_method("{method}").execute(inputs)[{place}].numpy()
"""


def _empty(program: Any, arguments: Sequence[int]) -> None:
    """Take out of a program every value that a call does not have, and the constants of those."""
    from executorch.exir.schema import Null

    (plan,) = program.execution_plan
    used = set(arguments)
    for held in [plan.values[one].val for one in arguments]:
        if "List" in type(held).__name__:
            used |= {item for item in held.items if type(item) is int}  # numbers of values, or numbers as such
    for k, value in enumerate(plan.values):
        if k not in used:
            value.val = Null()
    kept = {getattr(value.val, "data_buffer_idx", 0) for value in plan.values}
    for k, buffer in enumerate(program.constant_buffer):
        if k not in kept:
            buffer.storage = b""


def alone_in_pte(file: PteContent, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
    """Write ``one_node.pte`` into a folder.

    Parameters
    ----------
    file : PteContent
        The program that it is in.
    name : str
        The operator.
    inputs, captured : mapping of str to numpy.ndarray
        What went into the file, and what its operators gave.
    folder : path
        Where it is written.

    Raises
    ------
    InputError
        If what went into the instruction is not known, or ExecuTorch cannot write the program.
    """
    instructions = file.instructions
    step, place = instructions.by_name[name]
    given = [one for one in dict.fromkeys(step.reads) if instructions.stored(one) is None]
    values = {}
    for k, value in enumerate(given):
        source = instructions.name_of(instructions.sources[step.number, value])
        known = inputs.get(source.removeprefix(INPUT)) if source.startswith(INPUT) else captured.get(source)
        if known is None:
            raise InputError(f"what goes into it, {source}, is not shown.")
        tensor = instructions.tensor(value)
        values[f"in{k}"] = np.asarray(known, DTYPES[tensor.scalar_type.name]).reshape(tensor.sizes)
    with quietly():
        from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

        try:
            whole = deserialize_pte_binary(file.path.read_bytes())
            (chain,) = whole.program.execution_plan[0].chains
            chain.instructions = [chain.instructions[step.number]]
            plan = whole.program.execution_plan[0]
            plan.inputs, plan.outputs = given, list(step.results)
            chain.inputs = chain.outputs = chain.stacktrace = None
            _empty(whole.program, chain.instructions[0].instr_args.args)
            data = bytes(serialize_pte_binary(whole, extract_delegate_segments=True))
        except Exception as error:  # a third party's writer: of any type
            raise InputError(f"ExecuTorch does not write it as a program: {str(error)[:200]}") from error
    (folder / "one_node.pte").write_bytes(data)
    kernels = "import executorch.kernels.quantized\n" if "quantized" in step.label else ""
    lines = LINES.format(kernels=kernels, count=len(given), method=instructions.plan.name, place=place)
    return OperatorAlone("executorch", lines, values)
