"""Which class-level patches are on: a catalogue registers here, so that a copied module runs under the same ones."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

Active = Callable[[], tuple[str, ...]]
Within = Callable[[Sequence[str]], AbstractContextManager[None]]
Applied = Callable[[Any, Sequence[str]], AbstractContextManager[Any]]
Curing = Callable[[Any, str], tuple[str, ...]]
_CATALOGUES: list[tuple[Active, Within, Curing, Curing, Applied]] = []


def register(active: Active, within: Within, curing: Curing, needed: Curing, applied: Applied) -> None:
    """Add a catalogue of patches that replace methods of classes.

    Parameters
    ----------
    active : callable
        Returns the names of its patches that are on.
    within : callable
        Takes names and returns a context in which exactly these are on.
    curing : callable
        Takes a module and the name of an operator (``instance_norm``), and returns its patches that write this operator
        in another form and find something in the module to change.
    needed : callable
        Takes a module and the name of a backend, and returns its patches without which the export there fails or goes
        wrong, and that find something in the module to change.
    applied : callable
        Takes a module and names of patches, and returns a context in which they are applied to it.
    """
    _CATALOGUES.append((active, within, curing, needed, applied))


def active_patches() -> tuple[str, ...]:
    """Return the names of all class-level patches that are on."""
    return tuple(name for active, *_ in _CATALOGUES for name in active())


def with_patches(names: Sequence[str]) -> AbstractContextManager[object]:
    """Have exactly the class-level patches `names` on inside."""
    stack = ExitStack()
    for _, within, *_ in _CATALOGUES:
        stack.enter_context(within(names))
    return stack


def cures(module: Any, operator: str) -> tuple[tuple[str, Applied], ...]:
    """Return the patches that write an operator of a module in another form, each with what applies it."""
    return tuple((name, applied) for *_, curing, _, applied in _CATALOGUES for name in curing(module, operator))


def needed_patches(module: Any, backend: str) -> tuple[tuple[tuple[str, ...], Applied], ...]:
    """Return, of each catalogue that has some, the patches that a backend needs for a module, and what applies them."""
    found = ((needed(module, backend), applied) for *_, needed, applied in _CATALOGUES)
    return tuple((names, applied) for names, applied in found if names)
