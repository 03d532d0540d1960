"""What a file is compared with: another file, or the module that it was exported from."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import as_tensors, specs
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_program import ComparedProgram, by_name, of_exported
from kokoro_nb.inspection.formats import FORMATS, read_program
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_file_program import OnnxFileProgram


@dataclass(frozen=True, eq=False)
class Reference:
    """What is right.

    Attributes
    ----------
    what : OnnxFileProgram, CapturedProgram, Exported or torch.nn.Module
        A module is exported once the inputs are known.
    label : str
        What it is called in a sentence.
    inputs : mapping or None
        Arrays or tensors by name that came with it.
    """

    what: Any
    label: str
    inputs: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, against: Any) -> "Reference":
        """Read a path, a module, an exported program, or a pair of either with inputs by name.

        Raises
        ------
        InputError
            If it is none of these, or a file that cannot be read.
        """
        import torch

        if isinstance(against, str | Path):
            return cls(opened(Path(against)), Path(against).name)
        what, inputs = against if isinstance(against, tuple) and len(against) == 2 else (against, None)
        if not isinstance(what, torch.nn.Module | Exported) or not isinstance(inputs, Mapping | None):
            raise InputError(
                f"A file cannot be compared with a {type(what).__name__}; give a path, a torch.nn.Module, or a pair of "
                "a module and its inputs by name."
            )
        module = what.module if isinstance(what, Exported) else what
        return cls(what, f"the module {type(module).__name__}", inputs)

    def program(self, inputs: Mapping[str, np.ndarray]) -> ComparedProgram:
        """Return it for a comparison on inputs of these shapes.

        Raises
        ------
        InputError
            If a module does not take them, or cannot be exported.
        """
        if isinstance(self.what, Exported):
            return of_exported(self.what, self.label)
        if not hasattr(self.what, "forward"):
            return self.what.compared()
        parameters = signature(self.what.forward).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
        named = by_name(needed if self.inputs is None else list(self.inputs), inputs, self.label)
        given = as_tensors(named, specs(named if self.inputs is None else self.inputs))
        return of_exported(exported_reference(self.what.eval(), given), self.label)


def exported_reference(program: Any, inputs: Mapping[str, Any]) -> Exported:
    """Return what is right exported with these inputs.

    Raises
    ------
    InputError
        If it does not take them, or cannot be exported.
    """
    exported = as_exported(program, inputs, "eager")
    if isinstance(exported, Failure):
        raise InputError(f"The reference cannot be exported, so that nothing can be compared with it: {exported}")
    return exported


def opened(path: Path) -> Any:
    """Return the program that a file holds: a `CapturedProgram` or an `OnnxFileProgram`; InputError if none."""
    return read_program(path) if path.suffix in FORMATS else OnnxFileProgram(read_onnx(path))
