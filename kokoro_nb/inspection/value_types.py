"""Short names of the types that pass from node to node."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Input = np.ndarray | None  # None for what is absent
Value = Any  # an array, a list of them for a sequence, or None for what is absent
Arrays = Mapping[str, np.ndarray]
Values = Mapping[str, Value]
Several = Sequence[Value]
Tell = Callable[[str], object]  # is given a line on how far it is
