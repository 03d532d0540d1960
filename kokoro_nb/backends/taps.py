"""Where in an artefact the results of its operators are, saved beside it; and traces of runtimes that show none."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import TAPS
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_json, write_json
from kokoro_nb.traces.trace import Keep, Operator, Recorder, Taps, Trace, chosen

SCHEMA = 1


@dataclass(frozen=True)
class TapMap:
    """The operators that an artefact was made of, and where the runtime has their results.

    Attributes
    ----------
    operators : tuple of Operator
        Of the exported program, in the order of execution.
    places : dict
        Name of an operator -> what the backend calls its result. What is not in it cannot be captured.
    """

    operators: tuple[Operator, ...]
    places: Mapping[str, Any]

    def recorder(self, taps: Taps, keep: Keep) -> Recorder:
        """Return what records the results of the requested operators."""
        return Recorder(chosen(self.operators, taps), keep)

    def wanted(self, taps: Taps) -> dict[str, Any]:
        """Return the places of those requested operators that have one."""
        return {one.name: self.places[one.name] for one in chosen(self.operators, taps) if one.name in self.places}


def laid(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a captured array in the shape of its operator: a runtime shows a view as the memory that it is of.

    One of another number of elements stays as it is: the runtime computed something of another shape.
    """
    return value.reshape(shape) if value.size == np.prod(shape, dtype=int) else value


def write_taps(path: Path, taps: TapMap) -> None:
    """Write ``taps.json``."""
    rows = [list(asdict(operator).values()) for operator in taps.operators]
    write_json(path, {"schema": SCHEMA, "columns": _COLUMNS, "operators": rows, "places": dict(taps.places)})


def read_taps(folder: Path) -> TapMap:
    """Read the ``taps.json`` in the folder of an artefact.

    Raises
    ------
    InputError
        If it is absent or no such file.
    """
    about = read_json(folder / TAPS, "list of operators")
    try:
        if about["schema"] != SCHEMA or about["columns"] != _COLUMNS:
            raise ValueError("it is of another schema")
        operators = tuple(_operator(*row) for row in about["operators"])
        places = dict(about["places"])
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise InputError(f"{folder / TAPS} is no list of operators ({error}); export the artefact again.") from error
    return TapMap(operators, places)


_COLUMNS = [field.name for field in fields(Operator)]


def _operator(name: str, op: str, module_path: str, inputs: list[str], shape: list[int], dtype: str) -> Operator:
    return Operator(str(name), str(op), str(module_path), tuple(map(str, inputs)), tuple(map(int, shape)), str(dtype))


HOW = "not at all: this runtime shows no results but the outputs; compile the program with further outputs"


class UntracedProgram(ABC):
    """A program of such a runtime, loaded from `path`; the list of its operators is beside the model file."""

    backend: str
    path: Path
    inputs: tuple[TensorSpec, ...]

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""

    def trace(self, inputs: Arrays, taps: Taps = "all", keep: Keep = "stats") -> Trace:
        """Run once, with nothing captured: see `base.Program.trace`."""
        recorder = read_taps(self.path.parent).recorder(taps, keep)
        return recorder.trace(self.backend, checked(inputs, self.inputs), self.run(inputs), HOW)
