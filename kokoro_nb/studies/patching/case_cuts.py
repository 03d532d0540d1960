"""What passes each cut of the unpatched model: shapes, ranges, and whether all of it is finite."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.models.case import Case
from kokoro_nb.traces.statistics import Statistics, describe


@dataclass(frozen=True)
class CutStatistics:
    """Statistics of every tensor of a case, by its name."""

    tensors: Mapping[str, Statistics]

    @property
    def finite(self) -> float:
        """The smallest share of finite elements, 0 to 1."""
        return float(np.min([one.finite for one in self.tensors.values()]))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each cut."""
        return [
            {
                "cut": name,
                "shape": str(one.shape),
                "dtype": one.dtype,
                "minimum": one.minimum,
                "maximum": one.maximum,
                "finite": one.pattern,
            }
            for name, one in self.tensors.items()
        ]


def cuts(case: Case) -> CutStatistics:
    """Measure every tensor of `case`."""
    return CutStatistics({name: describe(tensor.numpy()) for name, tensor in case.tensors.items()})
