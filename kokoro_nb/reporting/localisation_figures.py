"""Figures of a localisation: errors along a program, what slices do not show, how a search went on."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.reporting.style import (
    CANDIDATES,
    FAULT,
    NAN_MARK,
    REFERENCE,
    colours,
    hatch_background,
    legend_above,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOWEST = 1e-4  # of what rounding explains: what is exact, or smaller, stands on the lower edge


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
