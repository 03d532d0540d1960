"""The drawings by the type of the result: `drawn` of one, `drawn_together` of several; what has none is a row."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import singledispatch
from numbers import Number
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment, table


class NoDrawingError(InputError):
    """There is no drawing for a type of result."""


@singledispatch
def drawn(result: Any, label: str, caption: str) -> Any:
    """Draw one result; register a drawing for another type with ``@drawn.register``."""
    from matplotlib.figure import Figure

    if isinstance(result, Figure | Fragment) or hasattr(result, "_repr_html_"):
        return result
    return table([_row(result)], caption)


@singledispatch
def drawn_together(first: Any, results: Any, label: str, caption: str) -> Any:
    """Draw several results of the type of `first` in one figure or table.

    Register a drawing for another type with ``@drawn_together.register``; `results` is a list, a tuple or a mapping of
    names to results.
    """
    if isinstance(results, Mapping):
        if all(map(is_plain, results.values())):
            return table([results], caption)
        return table([{"name": name, **_row(result)} for name, result in results.items()], caption)
    return table([_row(result) for result in results], caption)


@drawn_together.register(Mapping)
def _rows(first: Any, results: Any, label: str, caption: str) -> Any:
    if isinstance(results, Sequence):
        return table([_row(result) for result in results], caption)
    from kokoro_nb.reporting.charts import heat_map

    columns = list(first)
    return heat_map(
        list(results), columns, [[row[name] for name in columns] for row in results.values()], caption, label
    )


def _row(result: Any) -> Mapping[str, Any]:
    """Return `result` as a row of a table."""
    if isinstance(result, Mapping):
        return result
    if hasattr(result, "as_dict"):
        return dict(result.as_dict())
    if is_dataclass(result):
        row = {field.name.replace("_", " "): getattr(result, field.name) for field in fields(result)}
        if all(map(is_plain, row.values())):
            return row
    raise NoDrawingError(
        f"There is no drawing for a result of the type {type(result).__name__}; show its rows, or register a drawing "
        "with kokoro_nb.reporting.drawn.drawn.register."
    )


def is_plain(value: Any) -> bool:
    """Return whether a value can stand in a cell of a table."""
    return value is None or isinstance(value, str | Number)
