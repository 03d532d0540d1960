"""What is known of each operator of a trace: its result, error, inputs and readers; and the table of all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.markup import number
from kokoro_nb.traces.statistics import of_peak
from kokoro_nb.traces.trace import Operator, Tap, Trace

if TYPE_CHECKING:
    from kokoro_nb.locate.culprit import Culprit
    from kokoro_nb.locate.local_error import LocalError

COLUMNS = {
    "#": ("place", "Place in the order of execution"),
    "operator": ("name", "Path of the module that calls it, and the operator"),
    "verdict": ("verdict", "Whether it is right, given what it read"),
    "× rounding": ("error.ratio", "Its own error, as a multiple of the rounding-error bound"),
    "own error": ("error.of_peak", "Its own error on its own inputs, of the peak"),
    "with inherited": ("apart", "Largest difference from the reference, of its peak"),
    "finite %": ("finite", "Share of the elements that are finite"),
    "min": ("tap.statistics.minimum", "Smallest finite element"),
    "max": ("tap.statistics.maximum", "Largest finite element"),
    "mean": ("tap.statistics.mean", "Mean of the finite elements"),
    "rms": ("tap.statistics.rms", "Root mean square of the finite elements"),
    "shape": ("shape", "Shape of the result"),
    "dtype": ("operator.dtype", "Dtype of the result"),
}
"""The columns of the table of operators: what of an `Entry` stands in each, and what that is."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One operator.

    Attributes
    ----------
    place : int
        Its place in the order of execution, from 1.
    operator : Operator
        The operator.
    tap : Tap or None
        Its captured result; None where it could not be captured.
    error : LocalError or None
        Its local error, where it was measured.
    reference : numpy.ndarray, of the operator's shape, or None
        The reference's result, where both tensors were kept.
    apart : float or None
        Largest difference from it, of its peak: local and inherited error together.
    culprits : tuple of Culprit
        Culprits that a localisation found in it.
    """

    place: int
    operator: Operator
    tap: Tap | None = None
    error: "LocalError | None" = None
    reference: np.ndarray | None = None
    apart: float | None = None
    culprits: "tuple[Culprit, ...]" = ()

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.operator.name

    @property
    def verdict(self) -> str:
        """``fail``, ``unknown`` or ``pass``, and ``""`` of what was captured and neither judged nor found."""
        verdicts = {culprit.verdict for culprit in self.culprits}
        if "fail" in verdicts or (self.error is not None and self.error.unexplained):
            return "fail"
        if self.error is not None:
            return "pass"
        return "unknown" if self.tap is None or verdicts else ""

    @property
    def finite(self) -> float | None:
        """Percent of the elements that are finite, below 100 unless all are; None of what was not captured."""
        if self.tap is None:
            return None
        share = self.tap.statistics.finite
        return min(100 * share, 99.99) if share < 1 else 100 * share

    @property
    def broken(self) -> bool:
        """Whether it was captured and some of it is not finite."""
        return self.tap is not None and self.tap.statistics.finite < 1

    @property
    def urgency(self) -> tuple[float, ...]:
        """What sorts operators so that the one to look at first comes first."""
        ratio = -math.inf if self.error is None else self.error.ratio
        apart = -math.inf if self.apart is None else math.inf if math.isnan(self.apart) else self.apart
        room = math.inf if self.tap is None or math.isnan(self.tap.statistics.margin) else self.tap.statistics.margin
        return (-(self.verdict == "fail"), -self.broken, -(self.verdict == "unknown"), -ratio, -apart, room, self.place)

    @property
    def shape(self) -> str:
        """Its shape in words."""
        return " × ".join(map(str, self.operator.shape)) or "one number"

    def cell(self, head: str) -> Any:
        """Return what stands in a column of the table; None or ``""`` of what is not known."""
        found: Any = self
        for name in COLUMNS[head][0].split("."):
            found = getattr(found, name, None)
        return found


@dataclass(frozen=True, eq=False)
class Entries:
    """The operators of a trace, captured or requested, in the order of execution."""

    trace: Trace
    all: tuple[Entry, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Entry]:
        """The operators by name."""
        return {entry.name: entry for entry in self.all}

    @cached_property
    def readers(self) -> Mapping[str, list[str]]:
        """Names of the operators that read the result of an operator, by its name."""
        found: dict[str, list[str]] = {}
        for entry in self.all:
            for name in dict.fromkeys(entry.operator.inputs):
                found.setdefault(name, []).append(entry.name)
        return found

    @property
    def summary(self) -> str:
        """What was captured and found, in one line."""
        captured, broken = sum(one.tap is not None for one in self.all), sum(one.broken for one in self.all)
        words = f"{number(captured)} captured, {number(len(self.all) - captured)} not captured"
        words += f", {number(broken)} not finite"
        if any(entry.error is not None or entry.culprits for entry in self.all):
            wrong = sum(entry.verdict == "fail" for entry in self.all)
            words += f", {number(wrong)} wrong by {'itself' if wrong == 1 else 'themselves'}"
        how = f" ({self.trace.how})" if self.trace.how else ""
        return f"{self.trace.backend}{how}: {number(len(self.all))} operators, {words}"

    def worst(self, count: int) -> list[Entry]:
        """Return so many operators, the one to look at first before the others."""
        return sorted(self.all, key=lambda entry: entry.urgency)[:count]


def collect(
    trace: Trace,
    findings: "Sequence[Culprit]" = (),
    reference: Trace | None = None,
    errors: "Sequence[LocalError]" = (),
) -> Entries:
    """Collect what is known of each operator.

    Parameters
    ----------
    trace : Trace
        What was captured.
    findings : sequence of Culprit
        What a localisation found in it.
    reference : Trace, optional
        The same operators computed right, by name.
    errors : sequence of LocalError
        Local errors that were measured.

    Raises
    ------
    InputError
        If the trace has no operators.
    """
    operators = trace.requested or tuple(tap.operator for tap in trace.taps)
    if not operators:
        raise InputError("The trace has no operators to explore; take it with some taps.")
    taps = {tap.name: tap for tap in trace.taps}
    judged = {error.operator.name: error for error in errors}
    known = {} if reference is None else reference.values
    entries = []
    for place, operator in enumerate(operators, 1):
        tap, right = taps.get(operator.name), known.get(operator.name)
        if tap is None or tap.value is None or right is None or right.shape != tap.statistics.shape:
            right = apart = None
        else:
            apart = _apart(tap.value, right)
        culprits = tuple(one for one in findings if one.tap is not None and one.tap.name == operator.name)
        entries.append(Entry(place, operator, tap, judged.get(operator.name), right, apart, culprits))
    return Entries(trace, tuple(entries))


def _apart(given: Any, right: np.ndarray) -> float:
    """Return the largest absolute difference of the reference's peak; NaN as soon as either is not finite."""
    if not right.size:
        return 0.0
    kind = np.result_type(given, right, np.float32)  # integers and truth values must not wrap
    with np.errstate(invalid="ignore", over="ignore"):
        gap = float(np.abs(np.subtract(given, right, dtype=kind)).max())
        peak = float(np.abs(right.astype(kind, copy=False)).max())
    return of_peak(gap, peak)


def rows(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return a row for each operator, with the columns that have a value in any."""
    heads = [head for head in COLUMNS if any(entry.cell(head) not in (None, "") for entry in entries)]
    return [{head: entry.cell(head) for head in heads} for entry in entries]
