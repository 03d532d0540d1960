"""Which class-level patches are on: a catalogue registers here, so that a copied module runs under the same ones."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

Active = Callable[[], tuple[str, ...]]
Within = Callable[[Sequence[str]], AbstractContextManager[None]]
_CATALOGUES: list[tuple[Active, Within]] = []


def register(active: Active, within: Within) -> None:
    """Add a catalogue of patches that replace methods of classes.

    Parameters
    ----------
    active : callable
        Returns the names of its patches that are on.
    within : callable
        Takes names and returns a context in which exactly these are on.
    """
    _CATALOGUES.append((active, within))


def active_patches() -> tuple[str, ...]:
    """Return the names of all class-level patches that are on."""
    return tuple(name for active, _ in _CATALOGUES for name in active())


def with_patches(names: Sequence[str]) -> AbstractContextManager[object]:
    """Have exactly the class-level patches `names` on inside."""
    stack = ExitStack()
    for _, within in _CATALOGUES:
        stack.enter_context(within(names))
    return stack
