"""Delta debugging: the part of a set that does what the whole does, and of which nothing can be left out."""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import TypeVar

from kokoro_nb.errors import InputError

T = TypeVar("T", bound=Hashable)


def minimised(items: Sequence[T], good: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a subset of `items` that is good and of which no single item can be left out.

    This is the algorithm ``ddmin`` of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE
    Transactions on Software Engineering 28, 2002), with `good` in the place of "fails": runs of items, then what is
    left without each run, then shorter runs. It makes no assumption about `good`; where more items can spoil what fewer
    do, or several ways lead there, another subset may be smaller.

    Parameters
    ----------
    items : sequence
        What there is to choose from, each once; related items are best neighbours.
    good : callable
        Says of a subset, in the order of `items`, whether it does. It is asked once about each.

    Returns
    -------
    tuple
        In the order of `items`.

    Raises
    ------
    InputError
        If all items together are not good, or an item occurs twice.

    Examples
    --------
    >>> minimised("abcdefgh", lambda chosen: {"b", "g"} <= set(chosen))
    ('b', 'g')
    """
    if len(set(items)) != len(items):
        raise InputError("An item occurs twice; give each once.")
    known: dict[tuple[T, ...], bool] = {}

    def holds(chosen: tuple[T, ...]) -> bool:
        if chosen not in known:
            known[chosen] = good(chosen)
        return known[chosen]

    kept = tuple(items)
    if not holds(kept):
        raise InputError("All items together are not good, so that there is nothing to make smaller.")
    if holds(()):
        return ()
    parts = 2
    while len(kept) > 1:
        runs = _runs(kept, parts)
        rests = [tuple(item for item in kept if item not in run) for run in runs]
        smaller = next((run for run in runs if holds(run)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        smaller = next((rest for rest in rests if holds(rest)), None)
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def _runs(items: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    """Cut `items` into so many runs of nearly equal length.

    >>> _runs(("a", "b", "c", "d", "e"), 2)
    [('a', 'b'), ('c', 'd', 'e')]
    """
    edges = [len(items) * part // parts for part in range(parts + 1)]
    return [items[begin:end] for begin, end in pairwise(edges)]
