"""Figures along a program: one mark per operator, in the order in which it runs."""

import math
from typing import TYPE_CHECKING

from kokoro_nb.errors import InputError
from kokoro_nb.locate.precision.degradation import Lens, OperatorPrecision
from kokoro_nb.reporting.style import (
    CANDIDATES,
    DIFFERENCE,
    FAULT,
    NAN_MARK,
    REFERENCE,
    WIDTH,
    legend_above,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOWEST = 1e-9  # of the peak: what is exact, or smaller, stands on the lower edge


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
    with style():
        figure = new_figure(WIDTH, 5.2, title, weights)
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
        known = [(i, max(value, LOWEST)) for i, value in marks if value is not None and math.isfinite(value)]
        if known:
            x, y = zip(*known, strict=True)
            axes.plot(x, y, linestyle="", markersize=4, label=name, color=colour, marker=marker)
    for place, row in failed:
        if not math.isfinite(row.error):
            axes.axvspan(place - 0.5, place + 0.5, **NAN_MARK)
    axes.set(ylabel="error (of the peak)", ylim=(LOWEST / 2, None))
    axes.grid(axis="y")
    legend_above(axes, axes.get_lines())


def _margins(axes: "Axes", rows: tuple[OperatorPrecision, ...]) -> None:
    known = [(place, row.margin_db) for place, row in enumerate(rows) if math.isfinite(row.margin_db)]
    if known:
        axes.vlines([place for place, _ in known], 0, [margin for _, margin in known], color=DIFFERENCE, linewidth=0.6)
    axes.axhline(0, color=FAULT, linewidth=1)
    axes.set_ylabel("below 65504\n(dB)")
    axes.grid(axis="y")
