"""How a result is drawn, by its type: `drawn` for one, `drawn_together` for several; what has no drawing is a row.

Those of the general parts stand here: traces, localisation, listening. `logbook.shown` finds them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import singledispatch
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.transcript import Transcript
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.markup import Fragment, table
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.reporting import figures
from kokoro_nb.reporting.explorer import explore
from kokoro_nb.reporting.style import CANDIDATES, FAULT, NAN_MARK, REFERENCE, legend_above, new_figure
from kokoro_nb.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOWEST = 1e-4  # of the rounding-error bound: what is exact, or smaller, stands on the lower edge


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
    cells = {name: {column: row[column] for column in first} for name, row in results.items()}
    return figures.heat_map(cells, caption, label)


@drawn_together.register
def _spectra(first: np.ndarray, results: Any, label: str, caption: str) -> Any:
    """Draw the average spectra of signals of the model by their names."""
    if isinstance(results, Sequence):
        return _rows(first, results, label, caption)
    return figures.average_spectra(results, SAMPLE_RATE, caption or "Average spectrum", label)


def _row(result: Any) -> Mapping[str, Any]:
    """Return `result` as a row of a table."""
    if isinstance(result, Mapping):
        return result
    if isinstance(result, Diagnosis):
        return _diagnosis(result)
    if isinstance(result, Transcript):
        figures = {"mean log probability": result.avg_logprob, "probability of no speech": result.no_speech_prob}
        return {"heard": result.text, **figures, "compression ratio": result.compression_ratio}
    if hasattr(result, "as_dict"):
        return dict(result.as_dict())
    if is_dataclass(result):
        row = {field.name.replace("_", " "): getattr(result, field.name) for field in fields(result)}
        if all(map(is_plain, row.values())):
            return row
    raise NoDrawingError(
        f"There is no drawing for a result of the type {type(result).__name__}; show its rows, or register a drawing "
        "with kokoro_nb.reporting.drawings.drawn.register."
    )


def is_plain(value: Any) -> bool:
    """Return whether a value can stand in a cell of a table."""
    return value is None or isinstance(value, str | Number)


@drawn.register(Trace)
@drawn.register(Investigation)
def _explorer(result: Any, label: str, caption: str) -> Any:
    return explore(result)


@drawn.register
def _bisection(result: Bisection, label: str, caption: str) -> Any:
    """Draw which part of a program each compilation took, and whether it was wrong."""
    with new_figure(1.2 + 0.22 * len(result.steps), caption or f"Bisection on {result.backend}", label) as figure:
        axes = figure.subplots()
        rows: dict[str, Any] = {}
        for place, step in enumerate(result.steps, start=1):
            name, colour = ("wrong", FAULT) if step.wrong or step.failure else ("right", REFERENCE)
            rows[name] = axes.barh(place, step.stop - step.first, 0.7, step.first, color=colour, label=name)
        axes.set(xlim=(0, result.units), ylim=(len(result.steps) + 0.6, 0.4), ylabel="compilation")
        axes.set_xlabel("operators that compute, in the order of execution")
        legend_above(axes, list(rows.values()))
    return figure


@drawn_together.register
def _profiles(first: Investigation, results: Any, label: str, caption: str) -> Any:
    """Draw the local errors of all; the order is that of the program that was right."""
    named = results if isinstance(results, Mapping) else {one.backend: one for one in results}
    errors = {name: one.errors for name, one in named.items()}
    names = [one.name for one in first.reference.requested or first.reference.taps]
    return local_error_profile(errors, names, caption or "Error of each operator by itself", label)


def _diagnosis(found: Diagnosis) -> dict[str, Any]:
    row: dict[str, Any] = {"backend": found.backend, "verdict": found.verdict, "method": found.method}
    if found.failure is not None:
        return row | found.failure.as_dict()
    first, worst = found.first, next(iter(found.ranked), None)
    row["first wrong operator"] = "none" if first is None else first.name
    if worst is not None:
        row |= {"largest effect": worst.name, "line of the model": worst.source, "mechanism": worst.mechanism.name}
    more = found.investigation.as_dict() if found.investigation is not None else {}
    return row | more | {"result": found.statement}


def local_error_profile(
    errors: Mapping[str, Sequence[LocalError]], order: Sequence[str], title: str = "Local errors", weights: str = ""
) -> "Figure":
    """Draw how wrong each operator is by itself, in the order of execution, as a multiple of the rounding-error bound.

    Parameters
    ----------
    errors : mapping of str to sequence of LocalError
        Backend -> what `locate.verdicts.judged` returned.
    order : sequence of str
        Names of all operators, in the order of execution.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is no error to draw.
    """
    if not any(errors.values()):
        raise InputError("There are no local errors to draw; capture some operators with keep='full'.")
    places = {name: place for place, name in enumerate(order)}
    with new_figure(3.4, title, weights) as figure:
        axes = figure.subplots()
        axes.set_yscale("log")
        for index, (name, found) in enumerate(errors.items()):
            marks = [(places[one.operator.name], max(one.ratio, LOWEST)) for one in found if math.isfinite(one.ratio)]
            x, y = zip(*marks, strict=True) if marks else ((), ())
            colour = CANDIDATES[index % len(CANDIDATES)]
            axes.plot(x, y, linestyle="", marker=".", markersize=3, label=name, color=colour)
            for one in found:
                if not math.isfinite(one.ratio):
                    axes.axvspan(places[one.operator.name] - 0.5, places[one.operator.name] + 0.5, **NAN_MARK)
        axes.axhline(1, color=FAULT, linewidth=1)
        axes.set(xlim=(-1, len(order)), ylim=(LOWEST / 2, None))
        axes.set(xlabel="operator, in the order of execution", ylabel="error / rounding-error bound")
        axes.grid(axis="y")
        legend_above(axes, axes.get_lines()[:-1])
    return figure
