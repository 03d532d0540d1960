"""What a file is compared with: another file, or the module that it was exported from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import example_inputs
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_program import ComparedProgram, by_name, of_exported, of_onnx
from kokoro_nb.inspection.formats import FORMATS, read_program
from kokoro_nb.inspection.onnx_file import OnnxFile, read_onnx


@dataclass(frozen=True, eq=False)
class Reference:
    """What is right.

    Attributes
    ----------
    what : OnnxFile, RunnableProgram, Exported or torch.nn.Module
        A module is exported once the inputs are known.
    label : str
        What it is called in a sentence.
    inputs : dict or None
        Arrays by name that came with it.
    """

    what: Any
    label: str
    inputs: dict[str, np.ndarray] | None = None

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
            if Path(against).suffix in FORMATS:
                return cls(read_program(against), Path(against).name)
            file = read_onnx(against)
            return cls(file, file.path.name)
        what, inputs = against if isinstance(against, tuple) and len(against) == 2 else (against, None)
        if not isinstance(what, torch.nn.Module | Exported) or not isinstance(inputs, Mapping | None):
            raise InputError(
                f"A file cannot be compared with a {type(what).__name__}; give a path, a torch.nn.Module, or a pair of "
                "a module and its inputs by name."
            )
        given = None if inputs is None else {name: np.asarray(value) for name, value in inputs.items()}
        module = what.module if isinstance(what, Exported) else what
        return cls(what, f"the module {type(module).__name__}", given)

    def program(self, inputs: Mapping[str, np.ndarray]) -> ComparedProgram:
        """Return it for a comparison on inputs of these shapes.

        Raises
        ------
        InputError
            If a module does not take them, or cannot be exported.
        """
        if isinstance(self.what, Exported):
            return of_exported(self.what, self.label)
        if isinstance(self.what, OnnxFile):
            return of_onnx(self.what)
        if not hasattr(self.what, "forward"):
            return self.what.compared()
        names = list(self.inputs) if self.inputs is not None else _parameters(self.what)
        if len(names) != len(inputs):
            raise InputError(
                f"{self.label} takes {len(names)} inputs, the file {len(inputs)}; they cannot be compared."
            )
        exported = export_program(self.what.eval(), example_inputs(self.what, by_name(names, inputs)))
        if isinstance(exported, Failure):
            raise InputError(f"{self.label} cannot be exported with the inputs of the file: {exported}")
        return of_exported(exported, self.label)


def _parameters(module: Any) -> list[str]:
    """Return the names of a forward's parameters that have no default."""
    from inspect import signature

    parameters = signature(module.forward).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]


def three_sets(inputs: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Return the inputs and two variations, so that no two values are alike by chance."""
    return [dict(inputs), varied(inputs, 1), varied(inputs, 2)]


def varied(inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Return other inputs of the same shapes: floats drawn at the level of those given, integers in another order.

    Integers that are all the same have no other order: every second one is 0 then.
    """
    draw = np.random.default_rng(seed)
    found = {}
    for name, array in inputs.items():
        if array.dtype.kind == "f" and array.size > 1:
            noise = draw.standard_normal(array.shape)
            found[name] = (float(array.mean()) + (float(array.std()) or 1.0) * noise).astype(array.dtype)
        elif array.dtype.kind in "iu" and array.size > 1:
            flat = array.reshape(-1) * (np.arange(array.size) % 2 if np.ptp(array) == 0 else 1)
            found[name] = draw.permuted(flat).reshape(array.shape).astype(array.dtype)
        else:
            found[name] = array
    return found
