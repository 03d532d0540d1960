"""Figures of notebook 19: the time of each program against the floor, and the families in which its time goes."""

from typing import TYPE_CHECKING, Any

from kokoro_nb.benchmarks.families import shares
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.reporting.style import CANDIDATES, DIFFERENCE, FAULT, INK, REFERENCE, WIDTH, compact, new_figure, style
from kokoro_nb.studies.benchmarks import DecoderBenchmark, Profiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BOX: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
_HATCHES = ("", "//", "..")
_COLOURS = (REFERENCE, *CANDIDATES, DIFFERENCE)


@drawn.register(DecoderBenchmark)
def times_over_floor(result: DecoderBenchmark, label: str = "", caption: str = "") -> "Figure":
    """Draw the time of each program as a bar with its quartiles, and the floors as lines.

    Raises
    ------
    InputError
        If nothing was measured.
    """
    rows, floors = result.rows, result.times.floors
    if not rows:
        raise InputError("There are no times to draw; measure one program at least.")
    with style():
        figure = new_figure(WIDTH, 1.3 + 0.3 * len(rows), caption or f"Decoder from har, {result.length:g} s", label)
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.grid(axis="x")
        left = min(floors["least"], *(row.seconds.low for row in rows)) / 1.5
        for place, row in enumerate(rows):
            low, middle, high = row.seconds.low, row.seconds.median, row.seconds.high
            axes.barh(place, middle - left, left=left, height=0.62, color=REFERENCE)
            axes.plot([low, high], [place, place], color=INK, linewidth=1.5)
            text = f"{compact(row.real_time)} x real time"
            axes.annotate(text, (high, place), xytext=(5, 0), textcoords="offset points", va="center", bbox=_BOX)
        for name, look, seconds in (
            ("floor", "--", floors["least"]),
            ("floor, operators apart", ":", floors["separate"]),
        ):
            axes.axvline(seconds, color=FAULT, linestyle=look, linewidth=1.2, label=name)
        axes.set_yticks(range(len(rows)), [row.program for row in rows])
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(left, 4 * max(row.seconds.high for row in rows)))
        axes.set_xlabel("seconds of a call: median, quartiles")
        axes.tick_params(axis="y", length=0)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    return figure


@drawn.register(Profiles)
def family_shares(result: Profiles, label: str = "", caption: str = "") -> "Figure":
    """Draw for each program one bar, divided by the share of each family in its time.

    Raises
    ------
    InputError
        If there is no program, or one took no time.
    """
    seconds = {name: each.seconds for name, each in result.known.items()}
    if not seconds or not all(map(shares, seconds.values())):
        raise InputError("There are no times to divide; profile one program at least.")
    families = list(dict.fromkeys(name for each in seconds.values() for name in each))
    with style():
        figure = new_figure(WIDTH, 1.7 + 0.35 * len(seconds), caption or "Where the time goes", label)
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
