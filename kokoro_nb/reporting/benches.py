"""Figures of benchmarks: how long each program takes against the floor, and in which families its time goes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kokoro_nb.benchmarks.families import shares
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.style import CANDIDATES, DIFFERENCE, FAULT, INK, REFERENCE, WIDTH, compact, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BOX: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
_HATCHES = ("", "//", "..")
_COLOURS = (REFERENCE, *CANDIDATES, DIFFERENCE)


def times_over_floor(measured: Mapping[str, Any], title: str = "Time of a call", weights: str = "") -> "Figure":
    """Draw the time of each program as a bar with its quartiles, and the floors as lines.

    Parameters
    ----------
    measured : mapping
        What `benchmarks.decoders.Decoders.as_dict` returns.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If nothing was measured.
    """
    rows: Sequence[Mapping[str, Any]] = measured["rows"]
    if not rows:
        raise InputError("There are no times to draw; measure one program at least.")
    floors = measured["floor_seconds"]
    with style():
        figure = new_figure(WIDTH, 1.3 + 0.3 * len(rows), title, weights)
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.grid(axis="x")
        left = min(floors["least"], *(float(row["seconds"]["low"]) for row in rows)) / 1.5
        for place, row in enumerate(rows):
            low, middle, high = (float(row["seconds"][name]) for name in ("low", "median", "high"))
            axes.barh(place, middle - left, left=left, height=0.62, color=REFERENCE)
            axes.plot([low, high], [place, place], color=INK, linewidth=1.5)
            told = f"{compact(float(row['real_time_factor']))} x real time"
            axes.annotate(told, (high, place), xytext=(5, 0), textcoords="offset points", va="center", bbox=_BOX)
        for name, look, seconds in (
            ("floor", "--", floors["least"]),
            ("floor, operators apart", ":", floors["separate"]),
        ):
            axes.axvline(seconds, color=FAULT, linestyle=look, linewidth=1.2, label=name)
        axes.set_yticks(range(len(rows)), [row["program"] for row in rows])
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(left, 4 * max(float(row["seconds"]["high"]) for row in rows)))
        axes.set_xlabel("seconds of a call: median, quartiles")
        axes.tick_params(axis="y", length=0)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    return figure


def family_shares(
    seconds: Mapping[str, Mapping[str, float]], title: str = "Where the time goes", weights: str = ""
) -> "Figure":
    """Draw for each program one bar, divided by the share of each family in its time.

    Parameters
    ----------
    seconds : mapping of str to mapping of str to float
        Program -> family -> seconds.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is no program, or one took no time.
    """
    if not seconds or not all(map(shares, seconds.values())):
        raise InputError("There are no times to divide; profile one program at least.")
    families = list(dict.fromkeys(name for each in seconds.values() for name in each))
    with style():
        figure = new_figure(WIDTH, 1.7 + 0.35 * len(seconds), title, weights)
        axes = figure.subplots()
        for place, each in enumerate(seconds.values()):
            left, part = 0.0, shares(each)
            for number, name in enumerate(families):
                share = 100 * part.get(name, 0.0)
                look: dict[str, Any] = {
                    "color": _COLOURS[number % len(_COLOURS)],
                    "hatch": _HATCHES[number // len(_COLOURS)],
                }
                axes.barh(
                    place, share, left=left, height=0.62, edgecolor="white", label=None if place else name, **look
                )
                if share >= 6:
                    axes.text(left + share / 2, place, f"{share:.0f}", ha="center", va="center", color=INK, bbox=_BOX)
                left += share
        axes.set_yticks(range(len(seconds)), list(seconds))
        axes.set(xlim=(0, 100), ylim=(len(seconds) - 0.5, -0.5), xlabel="share of the time in operators (%)")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper right", ncols=4)
    return figure
