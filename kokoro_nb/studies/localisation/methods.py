"""Ways to name the operator that is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kokoro_nb.locate import Culprit, divergences
from kokoro_nb.traces.trace import Trace

OR = " or "  # between the names of operators of which one is wrong


@dataclass(frozen=True)
class View:
    """What a method is given.

    Attributes
    ----------
    reference : Trace
        Of the healthy program in PyTorch, whole tensors.
    candidate : Trace
        Of the program in question, whole tensors, on the same inputs.
    """

    reference: Trace
    candidate: Trace


Method = Callable[[View], tuple[str, ...]]


def by_divergence(view: View) -> tuple[str, ...]:
    """Return the operators that `localise.divergences` finds wrong; several joined by `OR` where one of them is."""
    return tuple(map(_named, divergences(view.reference, view.candidate)))


def _named(culprit: Culprit) -> str:
    assert culprit.tap is not None
    return OR.join(culprit.candidates) or culprit.tap.name


METHODS: Mapping[str, Method] = {"first divergence": by_divergence}
