"""How far an inspection is, said from time to time: who says nothing for long is taken for hung."""

import time
from collections.abc import Callable

SAID = 0.5  # seconds between two words


def seldom(tell: Callable[[str], object], seconds: float) -> Callable[[str], None]:
    """Return a function that hands a line on to `tell` at first, and then once `seconds` have passed.

    >>> say = seldom(print, 60.0)
    >>> for node in range(3):
    ...     say(f"{node} of 3 nodes")
    0 of 3 nodes
    """
    last = float("-inf")

    def say(line: str) -> None:
        nonlocal last
        if time.monotonic() - last > seconds:
            tell(line)
            last = time.monotonic()

    return say
