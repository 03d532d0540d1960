"""Short names of the types that pass from node to node, and the sentence that another package's error becomes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError, one_line

Array = np.ndarray
Input = np.ndarray | None  # None for what is absent
Value = Any  # an array, a list of them for a sequence, or None for what is absent
Arrays = Mapping[str, np.ndarray]
Values = Mapping[str, Value]
Several = Sequence[Value]
Tell = Callable[[str], object]  # is given a line on how far it is


@dataclass(frozen=True, eq=False, slots=True)
class NodeIdentity:
    """Which node something is said of; printed, it is what the node is called in a sentence.

    Attributes
    ----------
    index : int
        Its place in the order of execution.
    key : str
        Its id in Model Explorer.
    operator : str
        Its operator, as the format calls it.
    """

    index: int
    key: str
    operator: str

    def __str__(self) -> str:
        return f"{self.key} ({self.operator})"


@contextmanager
def refusing(sentence: str, say: Callable[[Exception], str] = one_line, kinds: Any = Exception) -> Iterator[None]:
    """Make an `InputError` with this sentence of what another package raises: of any type, or of `kinds`.

    In place of ``{}`` stands the error in the words of `say`; an `InputError` is raised as it is.
    """
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        raise InputError(sentence.replace("{}", say(error))) from error
