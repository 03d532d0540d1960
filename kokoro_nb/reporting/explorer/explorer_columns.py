"""The table of operators: its columns, and its cells as a page takes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kokoro_nb.reporting.explorer.entries import Entries
from kokoro_nb.storage import json_ready

DIGITS = 6  # of a figure, of which four are shown


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
