"""How far the whole output is off, against a limit and the reason for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class OutputError:
    """The output of a run that is furthest from what is right.

    Attributes
    ----------
    output : str
        Its name.
    of_peak : float
        Largest difference, of the peak of what is right; NaN as soon as one element is.
    finite : float
        Share of the elements that are finite among those that should be, 0 to 1.
    limit : float
        What is allowed of `of_peak`; NaN where none could be derived.
    basis : str
        Where the limit comes from.
    """

    output: str
    of_peak: float
    finite: float
    limit: float = float("nan")
    basis: str = ""

    @property
    def verdict(self) -> Verdict:
        """``pass`` within the limit, ``fail`` beyond it or not finite, ``unknown`` without a limit."""
        if self.finite < 1:
            return "fail"
        if np.isnan(self.limit):
            return "unknown"
        return "pass" if self.of_peak <= self.limit else "fail"

    def __str__(self) -> str:
        if self.finite < 1:
            return f"'{self.output}': {100 * (1 - self.finite):.3g} % of its elements are not finite"
        limit = "" if np.isnan(self.limit) else f" (limit {self.limit:.3g}: {self.basis})"
        return f"'{self.output}' is off by {self.of_peak:.3g} of its peak{limit}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, with units in the keys."""
        return {
            "output": self.output,
            "error (of peak)": self.of_peak,
            "finite (%)": 100 * self.finite,
            "limit (of peak)": self.limit,
            "limit from": self.basis,
            "verdict": self.verdict,
        }


def worst_output(right: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> OutputError:
    """Return the output that is furthest off, without a limit; one that is not finite is further than any other.

    Elements that are not finite in `right` are right where `given` has the same.
    """
    found = []
    for name, expected in right.items():
        expected, seen = np.asarray(expected), np.asarray(given[name])
        known = np.isfinite(expected)
        same = (expected == seen) | (np.isnan(expected) & np.isnan(seen)) if expected.dtype.kind != "b" else known
        lost = int((known & ~np.isfinite(seen)).sum() + (~known & ~same).sum())
        error = compare(expected[known], seen[known]).of_peak if known.any() and not lost else 0.0
        found.append(OutputError(name, float("nan") if lost else error, 1 - lost / expected.size if lost else 1.0))
    return sorted(found, key=lambda one: (one.finite < 1, 1 - one.finite, np.isnan(one.of_peak), one.of_peak))[-1]
