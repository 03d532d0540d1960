"""Searches: a smallest set that does what the whole does (delta debugging), and sets of what harms most."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from typing import TypeVar

from kokoro_nb.errors import InputError

T = TypeVar("T", bound=Hashable)


def smallest(
    items: Sequence[T], good: Callable[[tuple[T, ...]], bool], starts: Iterable[Collection[T]] | None = None
) -> tuple[T, ...]:
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
    starts : iterable of collections of items, optional
        The first one that is good is made smaller: sets that grow, so that most of the items are never tried. Without
        it, all items are.

    Returns
    -------
    tuple
        In the order of `items`.

    Raises
    ------
    InputError
        If no start is good, or an item occurs twice.

    Examples
    --------
    >>> smallest("abcdefgh", lambda chosen: {"b", "g"} <= set(chosen))
    ('b', 'g')
    """
    if len(set(items)) != len(items):
        raise InputError("An item occurs twice; give each once.")
    holds = cache(good)
    ordered = (tuple(item for item in items if item in start) for start in ([items] if starts is None else starts))
    kept = next((start for start in ordered if holds(start)), None)
    if kept is None:
        raise InputError("All items together are not good, so that there is nothing to make smaller.")
    if holds(()):
        return ()
    parts = 2
    while len(kept) > 1:
        runs = [kept[begin:end] for begin, end in pairwise([len(kept) * part // parts for part in range(parts + 1)])]
        rests = (tuple(item for item in kept if item not in run) for run in runs)
        if (smaller := next((run for run in runs if holds(run)), None)) is not None:
            kept, parts = smaller, 2
        elif (smaller := next((rest for rest in rests if holds(rest)), None)) is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def loudest(items: Sequence[T], level: Callable[[Sequence[T]], float], most: float = inf) -> Iterator[list[T]]:
    """Yield sets that grow by the item that harms most of those left, found by halving the worst group again and again.

    Parameters
    ----------
    level : callable
        How good it is still with the harm of this group alone: the lower, the sooner the group is halved.
    most : float
        How often that is asked: then the sets grow by the worst group, undivided.
    """
    made = 0
    queue, found = [(0.0, made, items)], list[T]()
    yield found
    while queue:
        group = heappop(queue)[-1]
        if len(group) > 1 and made < most:
            for part in (group[: len(group) // 2], group[len(group) // 2 :]):
                made += 1
                heappush(queue, (level(part), made, part))
        else:
            found = [*found, *group]
            yield found
