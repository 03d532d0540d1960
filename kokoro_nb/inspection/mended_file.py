"""What a mended file is made by: which parts of it are in float32, and what the outputs lose without each of them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.inspection.value_types import Tell, Values
from kokoro_nb.inspection.whole_file import signal_to_noise
from kokoro_nb.locate.search import smallest
from kokoro_nb.markup import number
from kokoro_nb.storage import atomic


@dataclass(frozen=True)
class MendedFile:
    """A file of which the fewest parts are in float32, found by measuring.

    Levels are those of the worst output over its error, dB: infinite of no error, minus infinity where an output is not
    finite, or the runtime has no such kernel.

    Attributes
    ----------
    parts : str
        What the parts are: ``nodes`` or ``layers``.
    error : str
        Which error is measured, in words.
    kept : tuple of str
        Ids of the parts in float32, in the order of execution.
    withdrawn : dict of str to float
        For each of them the level without it. Each is below the limit.
    plain, mended : float
        The level with no part in float32, and with these.
    limit : float
        The least level, dB.
    count : int
        How many parts could be in float32.
    weights : float
        Of a quantised file the level over what the rounding of the weights makes, by a draw; infinite where it is
        unknown.
    """

    parts: str
    error: str
    kept: tuple[str, ...]
    withdrawn: Mapping[str, float]
    plain: float
    mended: float
    limit: float
    count: int
    weights: float = float("inf")

    @property
    def nearest_miss(self) -> float:
        """The highest level with one of these parts withdrawn, dB; minus infinity if there are none."""
        return float(np.max(list(self.withdrawn.values()), initial=float("-inf")))

    def __str__(self) -> str:
        lost = "" if np.isinf(self.weights) else f"; rounding of weights alone makes {_decibels(self.weights)}"
        plain = f"Level of the outputs over {self.error}: {_decibels(self.plain)}{lost}."
        if not self.kept:
            finer = " What is to be gained is in the weights: a scale for each channel, or more bits." if lost else ""
            return f"{plain} None of the {self.count} {self.parts} has to be in float32.{finer}"
        worst = sorted(self.withdrawn, key=lambda key: self.withdrawn[key])
        each = ", ".join(f"{key}: {_decibels(self.withdrawn[key])}" for key in worst[:8])
        return (
            f"{plain} With {len(self.kept)} of {self.count} {self.parts} in float32 {_decibels(self.mended)}; with any "
            f"one of them withdrawn below {_decibels(self.limit)} ({each}{', ...' if len(worst) > 8 else ''})."
        )


def _decibels(level: float) -> str:
    if np.isinf(level):
        return "no noise" if level > 0 else "not finite or without a kernel"
    return f"{number(level)} dB"


def mended_file(
    about: tuple[str, str],
    every: Sequence[str],
    made: Callable[[Collection[str]], Any],
    level: Callable[[Any], float],
    limit: float,
    starts: Iterable[Collection[str]],
    path: str | Path,
    tell: Tell,
) -> MendedFile:
    """Write a model with a smallest set of parts in float32 whose level is not below the limit, and say which.

    Parameters
    ----------
    about : pair of str
        What the parts are, and which error is measured.
    every : sequence of str
        The parts that could be in float32, in the order of execution.
    made : callable
        Returns the model with these parts in float32.
    level : callable
        Returns the level of the outputs of a model, dB.
    limit : float
        The least level, dB.
    starts : iterable of collections of parts
        The first that reaches the limit is made smaller.
    path : path
        Where the model is written.
    tell : callable
        Is given a line on how far it is.
    """

    @cache
    def measured(kept: frozenset[str]) -> float:
        found = level(made(kept))
        tell(f"{len(kept)} of {len(every)} {about[0]} in float32: {_decibels(found)}")
        return found

    kept = smallest(every, lambda names: measured(frozenset(names)) >= limit, starts)
    with atomic(Path(path)) as draft:
        draft.write_bytes(made(kept).SerializeToString())
    withdrawn = {one: measured(frozenset(kept) - {one}) for one in kept}
    plain, mended = measured(frozenset()), measured(frozenset(kept))
    return MendedFile(*about, kept, withdrawn, plain, mended, limit, len(every))


def lowest_level(outputs: Values, right: Values) -> float:
    """Return the lowest level of the float outputs over their difference, dB; see `MendedFile`.

    An output that is silent in both has no noise; one that is missing, or not finite, gives minus infinity.
    """
    levels = [float("inf")]
    for name, exact in right.items():
        if isinstance(exact, np.ndarray) and exact.dtype.kind == "f":
            found = signal_to_noise(np.asarray(outputs[name]), exact) if name in outputs else None
            levels.append(float("-inf") if found is None else found)
    return float(np.min(levels))
