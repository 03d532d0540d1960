"""What a file of another format has to offer so that its operators can be judged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.inspection.compared_program import ComparedProgram
from kokoro_nb.inspection.input_maker import SIZES, MadeInputs
from kokoro_nb.inspection.judged_run import OperatorAlone
from kokoro_nb.inspection.value_types import Arrays
from kokoro_nb.traces.trace import Meaning


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """One run on the runtime.

    Attributes
    ----------
    captured : dict of str to numpy.ndarray
        The result of each operator that the runtime shows, by its name.
    outputs : dict of str to numpy.ndarray
        The outputs by name.
    again : dict of str to numpy.ndarray
        What a second call gives; empty if there was none, None of a program that keeps state.
    """

    captured: Arrays
    outputs: Arrays
    again: Arrays | None = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramFacts:
    """What is known of a program before it is run.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    runtime : str
        What it is run on, with its version.
    inputs : tuple of TensorSpec
        In order.
    outputs : dict of str to str
        Name of each output -> the operator that gives it; an empty text if none does.
    keys : dict of str to str
        Name of each operator -> its id in Model Explorer.
    hidden : dict of str to str
        Operators that cannot be judged, with the reason.
    notes : tuple of str
        What was noticed while it was read.
    """

    path: Path
    runtime: str
    inputs: tuple[TensorSpec, ...]
    outputs: Mapping[str, str]
    keys: Mapping[str, str]
    hidden: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class RunnableProgram(Meaning, Protocol):
    """A file that was read, which knows what its operators compute."""

    @property
    def facts(self) -> ProgramFacts:
        """What is known before it is run."""

    def made_inputs(self, seed: int = 0) -> MadeInputs:
        """Return valid inputs, and how each was made."""

    def run(self, inputs: Arrays) -> ProgramRun:
        """Run it once on the runtime."""

    def alone(self, name: str, inputs: Arrays, captured: Arrays, folder: Path) -> OperatorAlone:
        """Write one operator into a folder, to be run without this package; InputError says why it cannot be."""

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program; its `compute` knows every operator by name."""


def fixed(shape: Iterable[Any]) -> tuple[int, ...]:
    """Return a shape with a number for each axis that the file leaves open."""
    return tuple(int(size) if isinstance(size, int | np.integer) else SIZES[0] for size in shape)
