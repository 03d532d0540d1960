"""Figures of a localisation: errors along a program, what slices do not show, how a search went on, float16."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.precision.degradation import Lens, OperatorPrecision
from kokoro_nb.reporting.style import (
    CANDIDATES,
    DIFFERENCE,
    FAULT,
    NAN_MARK,
    REFERENCE,
    colours,
    hatch_background,
    legend_above,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOWEST = 1e-4  # of what rounding explains: what is exact, or smaller, stands on the lower edge
_LEAST = 1e-9  # of the peak, in the same way


def local_error_profile(
    errors: Mapping[str, Sequence[LocalError]], order: Sequence[str], title: str = "Local errors", weights: str = ""
) -> "Figure":
    """Draw how wrong each operator is by itself, in the order of execution, as a multiple of what rounding explains.

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
        axes.set(xlabel="operator, in the order of execution", ylabel="error / what rounding explains")
        axes.grid(axis="y")
        legend_above(axes, axes.get_lines()[:-1])
    return figure


def slices_map(value: Any, elements: int, title: str = "What slices show", weights: str = "") -> "Figure":
    """Draw which elements of a tensor are not finite, and which of them a look at its first and last elements meets.

    Parameters
    ----------
    value : array, shape=(1, channels, positions)
        The tensor.
    elements : int
        How many are looked at from the head, and from the tail, in C order.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If it is of another shape, or has fewer elements.
    """
    value = np.asarray(value)
    if value.ndim != 3 or value.shape[0] != 1 or not 0 < 2 * elements <= value.size:
        raise InputError(f"A tensor of shape {value.shape} cannot be drawn with {elements} elements at either end.")
    bad = ~np.isfinite(value[0])
    looked = np.zeros(value.size, dtype=bool)
    looked[:elements] = looked[-elements:] = True
    with new_figure(3.2, title, weights) as figure:
        axes = figure.subplots()
        axes.imshow(np.where(bad, np.nan, 0.25), cmap=colours("Greys"), vmin=0, vmax=1, aspect="auto")
        hatch_background(axes)
        for channel in np.flatnonzero(looked.reshape(bad.shape).any(axis=1)):
            seen = np.flatnonzero(looked.reshape(bad.shape)[channel])
            axes.plot(seen[[0, -1]], [channel, channel], color=REFERENCE, linewidth=3, solid_capstyle="butt")
        met = int((bad.reshape(-1) & looked).sum())
        axes.set_title(
            f"hatched: not finite ({int(bad.sum())} of {bad.size}); blue: looked at ({2 * elements}), {met} not finite"
        )
        axes.set(xlabel="position (samples of this layer)", ylabel="channel")
    return figure


def bisections(found: Bisection, title: str = "Bisection", weights: str = "") -> "Figure":
    """Draw which part of a program each compilation took, and whether it was wrong.

    Parameters
    ----------
    found : Bisection
        What `locate.bisection.bisect` returned.
    title, weights : str
        Title, and label of the weights.
    """
    with new_figure(1.2 + 0.22 * len(found.steps), title, weights) as figure:
        axes = figure.subplots()
        rows: dict[str, Any] = {}
        for place, step in enumerate(found.steps, start=1):
            name, colour = ("wrong", FAULT) if step.wrong or step.failure else ("right", REFERENCE)
            rows[name] = axes.barh(place, step.stop - step.first, 0.7, step.first, color=colour, label=name)
        axes.set(xlim=(0, found.units), ylim=(len(found.steps) + 0.6, 0.4), ylabel="compilation")
        axes.set_xlabel("operators that compute, in the order of execution")
        legend_above(axes, list(rows.values()))
    return figure


def precision_profile(lens: Lens, title: str = "float16, operator by operator", weights: str = "") -> "Figure":
    """Draw what float16 does along a model: the error of each operator's result, and its room to the largest number.

    Parameters
    ----------
    lens : Lens
        What `locate.precision.lens.lens` measured.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If the lens has no row.
    """
    if not lens.rows:
        raise InputError("The lens has no operator to draw; look at a model that computes floats.")
    with new_figure(5.2, title, weights) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        _errors(upper, lens.rows)
        _margins(lower, lens.rows)
        lower.set(xlim=(-1, len(lens.rows)), xlabel="operator, in the order of execution")
    return figure


def _errors(axes: "Axes", rows: tuple[OperatorPrecision, ...]) -> None:
    axes.set_yscale("log")
    failed = [(place, row) for place, row in enumerate(rows) if row.verdict == "fail"]
    for name, marks, colour, marker in (
        ("float32 to float64 (floor)", [(i, row.floor) for i, row in enumerate(rows)], REFERENCE, "_"),
        ("added by the operator (local)", [(i, row.local) for i, row in enumerate(rows)], CANDIDATES[4], "."),
        ("float16 to float32", [(i, row.error) for i, row in enumerate(rows)], DIFFERENCE, "."),
        ("left the noise floor", [(i, row.error) for i, row in failed], FAULT, "x"),
    ):
        known = [(i, max(value, _LEAST)) for i, value in marks if value is not None and math.isfinite(value)]
        if known:
            x, y = zip(*known, strict=True)
            axes.plot(x, y, linestyle="", markersize=4, label=name, color=colour, marker=marker)
    for place, row in failed:
        if not math.isfinite(row.error):
            axes.axvspan(place - 0.5, place + 0.5, **NAN_MARK)
    axes.set(ylabel="error (of the peak)", ylim=(_LEAST / 2, None))
    axes.grid(axis="y")
    legend_above(axes, axes.get_lines())


def _margins(axes: "Axes", rows: tuple[OperatorPrecision, ...]) -> None:
    known = [(place, row.margin_db) for place, row in enumerate(rows) if math.isfinite(row.margin_db)]
    if known:
        axes.vlines([place for place, _ in known], 0, [margin for _, margin in known], color=DIFFERENCE, linewidth=0.6)
    axes.axhline(0, color=FAULT, linewidth=1)
    axes.set_ylabel("below 65504\n(dB)")
    axes.grid(axis="y")
