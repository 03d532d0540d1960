"""What is known of each operator of a trace: its result, error, inputs and readers; and the table of all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.markup import number
from kokoro_nb.storage import json_ready
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.parity import of_peak
from kokoro_nb.traces.trace import Tap, Trace

if TYPE_CHECKING:
    from kokoro_nb.locate import Culprit
    from kokoro_nb.locate.local_error import LocalError

DIGITS = 6  # of a figure, of which four are shown


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


@dataclass(frozen=True, eq=False)
class Entries:
    """The operators of a trace, in the order of execution.

    Attributes
    ----------
    trace : Trace
        The trace.
    all : tuple of Entry
        Those that were captured, and those that were requested.
    """

    trace: Trace
    all: tuple[Entry, ...]
    by_name: Mapping[str, Entry] = field(repr=False)

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the operators that read the result of an operator, by its name."""
        found: dict[str, list[str]] = {}
        for entry in self.all:
            for name in dict.fromkeys(entry.operator.inputs):
                found.setdefault(name, []).append(entry.name)
        return {name: tuple(readers) for name, readers in found.items()}

    @property
    def summary(self) -> str:
        """What was captured and found, in one line."""
        counted = {
            "captured": sum(entry.tap is not None for entry in self.all),
            "not captured": sum(entry.tap is None for entry in self.all),
            "not finite": sum(entry.broken for entry in self.all),
        }
        words = [f"{number(count)} {what}" for what, count in counted.items()]
        judged = any(entry.error is not None or entry.culprits for entry in self.all)
        wrong = sum(entry.verdict == "fail" for entry in self.all)
        words += [f"{number(wrong)} wrong by {'itself' if wrong == 1 else 'themselves'}"] if judged else []
        how = f" ({self.trace.how})" if self.trace.how else ""
        return f"{self.trace.backend}{how}: {number(len(self.all))} operators, {', '.join(words)}"

    def worst(self, count: int) -> tuple[Entry, ...]:
        """Return so many operators, the one to look at first before the others."""
        return tuple(sorted(self.all, key=lambda entry: entry.urgency)[:count])


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
        The trace.
    findings : sequence of Culprit, optional
        What a localisation found in this trace.
    reference : Trace, optional
        Of the reference, with its tensors: the distance of each operator to it is known, inherited error included.
    errors : sequence of LocalError, optional
        What `locate.verdicts.judged` returned: the own error of each operator.

    Raises
    ------
    InputError
        If nothing was requested or captured, or an error or a finding is of an operator that the trace does not have.
    """
    operators = trace.requested or tuple(tap.operator for tap in trace.taps)
    if not operators:
        raise InputError("The trace has no operators to explore; take it with some taps.")
    taps = {tap.name: tap for tap in trace.taps}
    judged = {error.operator.name: error for error in errors}
    found: dict[str, list[Any]] = {}
    for culprit in findings:
        if culprit.tap is not None:
            found.setdefault(culprit.tap.name, []).append(culprit)
    strange = ({*judged} | {*found}) - {operator.name for operator in operators}
    if strange:
        raise InputError(f"The trace has no operator '{min(strange)}'; give what was found in this very trace.")
    known = {} if reference is None else reference.values
    entries = []
    for place, operator in enumerate(operators, 1):
        tap = taps.get(operator.name)
        right = known.get(operator.name) if tap is not None and tap.value is not None else None
        right = None if right is None or tap is None or right.shape != tap.statistics.shape else right
        apart = None if right is None or tap is None else _apart(tap.value, right)
        culprits = tuple(found.get(operator.name, ()))
        entries.append(Entry(place, operator, tap, judged.get(operator.name), right, apart, culprits))
    return Entries(trace, tuple(entries), {entry.name: entry for entry in entries})


def _apart(given: Any, right: np.ndarray) -> float:
    """Return the largest absolute difference of the reference's peak; NaN as soon as either is not finite."""
    if not right.size:
        return 0.0
    kind = np.result_type(given, right, np.float32)  # integers and truth values must not wrap
    with np.errstate(invalid="ignore", over="ignore"):
        gap = float(np.abs(np.subtract(given, right, dtype=kind)).max())
        peak = float(np.abs(right.astype(kind, copy=False)).max())
    return of_peak(gap, peak)


@dataclass(frozen=True)
class Column:
    """One column of the table of operators: its heading, what it is in a sentence, and its value of an entry."""

    head: str
    title: str
    figures: bool
    value: Any = field(repr=False)


def _measured(name: str) -> Any:
    return lambda entry: None if entry.tap is None else getattr(entry.tap.statistics, name)


def _judged(name: str) -> Any:
    return lambda entry: None if entry.error is None else getattr(entry.error, name)


COLUMNS = (
    Column("#", "Place in the order of execution", True, lambda entry: entry.place),
    Column("operator", "Path of the module that calls it, and the operator", False, lambda entry: entry.name),
    Column("verdict", "Whether it is right, given what it read", False, lambda entry: entry.verdict),
    Column("× rounding", "Its own error, as a multiple of what rounding explains", True, _judged("ratio")),
    Column("own error", "Its own error on its own inputs, of the peak", True, _judged("of_peak")),
    Column("with inherited", "Largest difference from the reference, of its peak", True, lambda entry: entry.apart),
    Column("finite %", "Share of the elements that are finite", True, lambda entry: entry.finite),
    Column("min", "Smallest finite element", True, _measured("minimum")),
    Column("max", "Largest finite element", True, _measured("maximum")),
    Column("mean", "Mean of the finite elements", True, _measured("mean")),
    Column("rms", "Root mean square of the finite elements", True, _measured("rms")),
    Column("shape", "Shape of the result", False, lambda entry: shape(entry.operator.shape)),
    Column("dtype", "Dtype of the result", False, lambda entry: entry.operator.dtype),
)


def columns(entries: Entries) -> tuple[Column, ...]:
    """Return the columns that have a value for any operator."""
    return tuple(column for column in COLUMNS if any(column.value(entry) not in (None, "") for entry in entries.all))


def payload(entries: Entries) -> dict[str, Any]:
    """Return the table as JSON can hold it: columns, and a list of values per operator; what is not finite by name."""
    shown = columns(entries)
    return {
        "summary": entries.summary,
        "columns": [{"head": one.head, "title": one.title, "figures": one.figures} for one in shown],
        "rows": [[json_ready(_short(one.value(entry))) for one in shown] for entry in entries.all],
    }


def shape(sizes: Sequence[int]) -> str:
    """Return a shape in words.

    >>> shape((1, 256, 24)), shape(())
    ('1 × 256 × 24', 'one number')
    """
    return " × ".join(map(str, sizes)) or "one number"


def _short(value: Any) -> Any:
    """Return a figure without the digits that no table shows."""
    if not isinstance(value, float) or not math.isfinite(value) or value == int(value) or abs(value) >= 1e5:
        return value
    return float(f"{value:.{DIGITS}g}")
