"""Whether a program's outputs depend on earlier calls: memory that is used again and was not cleared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Runnable
from kokoro_nb.backends.ladder import difference
from kokoro_nb.backends.signature import Arrays, as_array

BEFORE = ("itself", "itself twice", "NaN in every float", "zeros", "a constant")


@dataclass(frozen=True)
class History:
    """What the same inputs gave after others.

    Attributes
    ----------
    changes : dict
        What was run just before -> largest absolute difference to the first answer; NaN where a value was not finite in
        one of the two only. What the runtime refused to run is not in it.
    first : dict
        The first answer, array of each output by its name.
    later, right : tuple of dict
        Of a program that keeps state: the answers of the second and the third call, and what PyTorch's are in float64.
    """

    changes: Mapping[str, float]
    first: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    later: tuple[Mapping[str, np.ndarray], ...] = field(default=(), repr=False)
    right: tuple[Mapping[str, np.ndarray], ...] = field(default=(), repr=False)

    @property
    def depends(self) -> bool:
        """Whether any later answer was another one than the first."""
        return any(change != 0 for change in self.changes.values())

    @property
    def statement(self) -> str:
        """What was found, in one sentence."""
        if self.later:
            return "The program keeps state, so that each call has an answer of its own."
        if not self.depends:
            return f"The answer is the same, bit for bit, after {', '.join(self.changes)}."
        changes = [f"{change:.3g} after {before}" for before, change in self.changes.items() if change != 0]
        return f"The answer depends on history: it differs by {', '.join(changes)}."


def history(program: Runnable, inputs: Arrays) -> History:
    """Run `inputs` on one loaded program again and again, with poisoned and constant inputs in between.

    Parameters
    ----------
    program : Runnable
        Loaded afresh, or the first answer is not the first.
    inputs : mapping
        Name -> tensor.
    """
    arrays = {name: as_array(name, value) for name, value in inputs.items()}
    first = program.run(arrays)
    changes = {}
    for before in BEFORE:
        if not before.startswith("itself") and not _ran(program, arrays, before):
            continue
        changes[before] = difference(first, program.run(arrays))
    return History(changes, first)


def stateful_history(program: Runnable, reference: Runnable, inputs: Arrays) -> History:
    """Run `inputs` three times on a program that keeps state, and on PyTorch in float64; both loaded afresh."""
    arrays = {name: as_array(name, value) for name, value in inputs.items()}
    first, *later = (program.run(arrays) for _ in range(3))
    _, *right = (reference.run(arrays) for _ in range(3))
    return History({}, first, tuple(later), tuple(right))


def _ran(program: Runnable, arrays: Mapping[str, np.ndarray], before: str) -> bool:
    """Run the poisoned or constant inputs, and return whether the runtime took them: NaN may become an index."""
    try:
        program.run({name: _replaced(array, before) for name, array in arrays.items()})
    except Exception:  # each runtime has its own
        return False
    return True


def _replaced(array: np.ndarray, before: str) -> Any:
    if array.dtype.kind != "f":
        return array  # an index out of range is another matter
    return np.full_like(array, {"NaN in every float": np.nan, "zeros": 0.0, "a constant": 1.0}[before])
