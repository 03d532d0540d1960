"""One instruction of an ExecuTorch program, with its kernel or its delegate, cut out as a program of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.formats.pte_content import PteContent
from kokoro_nb.inspection.formats.pte_instructions import DTYPES
from kokoro_nb.inspection.formats.runnable_program import OperatorAlone
from kokoro_nb.traces.operators import INPUT

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


def alone_in_pte(
    file: PteContent,
    name: str,
    inputs: Mapping[str, np.ndarray],
    captured: Mapping[str, np.ndarray],
    folder: Path,
) -> OperatorAlone:
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
