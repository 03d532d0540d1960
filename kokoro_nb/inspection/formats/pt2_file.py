"""Programs that `torch.export.save` wrote: read, run in PyTorch, and each operator computed again in float64."""

import zipfile
from dataclasses import dataclass, replace
from functools import cached_property
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.called_operators import user_results
from kokoro_nb.backends.exported import Exported, tensors_in, user_inputs
from kokoro_nb.backends.signature import TensorSpec, array_of, dtype_name
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.captured_program import CapturedProgram, ProgramFacts, ProgramRun
from kokoro_nb.inspection.compared_program import ComparedProgram, of_exported
from kokoro_nb.inspection.input_maker import MadeInputs, drawn_inputs, fixed
from kokoro_nb.inspection.judged_run import OperatorAlone
from kokoro_nb.inspection.value_types import Arrays, refusing
from kokoro_nb.torch_private import schema
from kokoro_nb.traces.trace import Given, Hook, Operator

HEAVIEST = 4 * 2**30  # bytes when unpacked
LINES = """\
import torch

values = torch.load(here / "values.pt")
with torch.no_grad():
    given = torch.ops.{operator}(*values["args"], **values["kwargs"]){part}.double().numpy()
"""


@dataclass(frozen=True, eq=False)
class Pt2File(CapturedProgram):
    """A program of `torch.export`.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    exported : Exported
        What is in it.
    """

    path: Path
    exported: Exported

    @classmethod
    def read(cls, path: Path) -> "Pt2File":
        """Read a file.

        Raises
        ------
        InputError
            If it is no such file, is cut off or damaged, or becomes too large when unpacked.
        """
        no_file = f"{path} is no .pt2 file of torch.export.save, or it is cut off: {{}}."
        with refusing(no_file, str), zipfile.ZipFile(path) as archive:
            size = sum(one.file_size for one in archive.infolist())
        if size > HEAVIEST:
            raise InputError(f"{path} has {size:,} bytes when unpacked; at most {HEAVIEST:,} are read.")
        with refusing(f"{path} cannot be read by torch.export.load: {{}}."), quietly():
            program = torch.export.load(str(path))
        given = user_inputs(program).items()
        specs = tuple(TensorSpec(name, fixed(one.shape), dtype_name(one.dtype)) for name, one in given)
        count = len(user_results(program))
        outputs = ("output",) if count == 1 else tuple(f"output_{k}" for k in range(count))
        return cls(path, Exported(None, program, specs, outputs, (), 0.0))

    @cached_property
    def facts(self) -> ProgramFacts:
        """What is known before it is run."""
        specification = self.exported.specification
        keys = {one.name: specification.node_name(one.name) for one in self.operators}
        drawing = [one.name for one in self.operators if one.draws]
        about = self.path, f"PyTorch {torch.__version__}", self.exported.inputs
        return ProgramFacts(*about, specification.givers, keys, dict.fromkeys(drawing, "draws at random"))

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All of them, in the order of execution."""
        return self.exported.specification.operators

    def recompute(self, name: str, inputs: Given, captured: Given, double: bool = True, substitute: Hook = None) -> Any:
        """Compute one operator on its inputs: see `Specification.recompute`."""
        return self.exported.specification.recompute(name, inputs, captured, double, substitute)

    def made(self, seed: int = 0) -> MadeInputs:
        """Return the example inputs that the file holds, else draw some."""
        leaves = list(tensors_in(self.exported.program.example_inputs))
        if len(leaves) == len(self.exported.inputs):
            arrays = {spec.name: array_of(leaf) for spec, leaf in zip(self.exported.inputs, leaves, strict=True)}
            return MadeInputs(arrays, dict.fromkeys(arrays, "the example that the file holds"))
        return drawn_inputs([replace(one, dtype=one.held) for one in self.exported.inputs], seed, {})

    def run(self, inputs: Arrays) -> ProgramRun:
        """Run it operator by operator in PyTorch.

        Raises
        ------
        InputError
            If PyTorch stops.
        """
        captured: dict[str, np.ndarray] = {}
        with refusing(f"PyTorch stops on {self.path}: {{}}."):
            specification = self.exported.specification
            outputs = specification.run(inputs, lambda name, one: captured.update({name: np.array(array_of(one))}))
        return ProgramRun(captured, outputs)

    def alone(self, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
        """Write the arguments of one operator, in the types of the file.

        Raises
        ------
        InputError
            If it is no operator that PyTorch knows by name.
        """
        calls: list[tuple[Any, Any, Any]] = []

        def keep(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
            calls.append((target, args, kwargs))
            return result

        self.recompute(name, inputs, captured, double=False, substitute=keep)
        part = f"[{calls.pop()[1][1]}]" if calls[-1][0] is getitem else ""
        target, args, kwargs = calls[-1]
        if schema(target) is None:
            raise InputError(f"{target} is no operator of PyTorch by name.")
        torch.save({"args": _plain(args), "kwargs": _plain(kwargs)}, folder / "values.pt")
        return OperatorAlone("torch", LINES.format(operator=target, part=part))

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program."""
        return of_exported(self.exported, self.path.name, self.facts.keys)


def _plain(value: Any) -> Any:
    """Return arguments with lists of PyTorch's own as lists."""
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value.detach().clone() if hasattr(value, "detach") else value
