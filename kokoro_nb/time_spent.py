"""Where the time of this process goes: seconds by kind of work, each second counted once."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

Kind = Literal["export", "compile", "load", "run", "float64", "figures", "waiting"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_spent: dict[str, float] = {}
_open: list[Kind] = []  # kinds of the blocks that are open, the innermost last
_since = 0.0  # when the innermost began, or went on after one inside it


@contextmanager
def timed(kind: Kind) -> Iterator[None]:
    """Count the time of this block, or of each call of the function that this decorates, as `kind`.

    What is timed inside counts as its own kind alone, so that the kinds add up to no more than the wall time. Other
    threads than the main one are not counted: they work while it waits.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _lap()
    _open.append(kind)
    try:
        yield
    finally:
        _lap()
        _open.pop()


def seconds() -> dict[str, float]:
    """Return the seconds spent so far on each kind of work that took any, in the order of `KINDS`."""
    _lap()
    return {kind: _spent[kind] for kind in KINDS if kind in _spent}


def _lap() -> None:
    global _since
    now = time.perf_counter()
    if _open:
        _spent[_open[-1]] = _spent.get(_open[-1], 0.0) + now - _since
    _since = now
