"""How far the whole output is off, against a limit and the reason for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.locate.local_error import parts
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class OutputLimit:
    """What is allowed of an output's error, of its peak, and where that comes from."""

    value: float
    basis: str


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
    form : str
        In what shape or dtype it differs, ``shape (3, 6, 3) in place of (3, 6)``; empty if in neither.
    """

    output: str
    of_peak: float
    finite: float
    limit: float = float("nan")
    basis: str = ""
    form: str = ""

    @property
    def verdict(self) -> Verdict:
        """``pass`` within the limit, ``fail`` beyond it, not finite or of another form, ``unknown`` without a limit."""
        if self.finite < 1 or self.form:
            return "fail"
        if np.isnan(self.limit):
            return "unknown"
        return "pass" if self.of_peak <= self.limit else "fail"

    def __str__(self) -> str:
        if self.finite < 1:
            share = f"{100 * (1 - self.finite):.3g} % of '{self.output}'"
            return f"{share} is not finite where it should be, or finite where it should not be"
        if np.isnan(self.of_peak):
            return f"'{self.output}' has {self.form}"
        limit = "" if np.isnan(self.limit) else f" (limit {self.limit:.3g}: {self.basis})"
        return f"'{self.output}' is off by {self.of_peak:.3g} of its peak{limit}" + (
            f", and has {self.form}" if self.form else ""
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, with units in the keys."""
        return {
            "output": self.output,
            "error (of peak)": self.of_peak,
            "finite (%)": 100 * self.finite,
            "limit (of peak)": self.limit,
            "limit from": self.basis,
            "shape or dtype": self.form,
            "verdict": self.verdict,
        }


def worst_output(
    right: Mapping[str, Any], given: Mapping[str, Any], limits: Mapping[str, OutputLimit] | None = None
) -> OutputError:
    """Return the output that is furthest beyond its limit; one that is not finite is further than any other.

    Elements that are not finite in `right` are right where `given` has the same. An output of another shape is wrong as
    a whole.

    Parameters
    ----------
    right, given : mapping
        Array of each output by its name.
    limits : mapping, optional
        Limit of each; without it the output with the largest error of its peak is returned, and has no limit.
    """
    found = []
    for name, expected in right.items():
        expected, seen = parts(np.asarray(expected)), parts(np.asarray(given[name]))
        limit = limits[name] if limits else OutputLimit(float("nan"), "")
        if expected.shape != seen.shape:
            form = f"shape {seen.shape} in place of {expected.shape}"
            found.append(OutputError(name, float("nan"), 1.0, limit.value, limit.basis, form))
            continue
        known = np.isfinite(expected)
        lost = int((known != np.isfinite(seen)).sum())
        error = compare(expected[known], seen[known]).of_peak if known.any() and not lost else 0.0
        share = 1 - lost / expected.size if lost else 1.0
        found.append(OutputError(name, float("nan") if lost else error, share, limit.value, limit.basis))
    return sorted(found, key=_distance)[-1]


def _distance(one: OutputError) -> tuple[bool, bool, float, float]:
    beyond = one.of_peak / one.limit if one.limit else (np.inf if one.of_peak else 0.0)
    return bool(one.form), one.finite < 1, 1 - one.finite, one.of_peak if np.isnan(beyond) else beyond
