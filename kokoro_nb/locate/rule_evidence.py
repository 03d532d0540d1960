"""What a rule for mechanisms looks at, and the list that the rules stand in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.mechanism import Mechanism, Name
from kokoro_nb.locate.patterns import Pattern

HALF = 65504.0  # largest finite float16
MOSTLY = 0.99  # share of the error, beyond which an explanation is taken up


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at.

    Attributes
    ----------
    error : LocalError
        The operator, what it gave and what is right.
    pattern : Pattern
        Where it is wrong.
    inputs : dict
        Name -> what went into it.
    """

    error: LocalError
    pattern: Pattern
    inputs: dict[str, np.ndarray]

    @property
    def kind(self) -> str:
        """The operator without namespace and overload: ``instance_norm``."""
        return self.error.operator.kind

    @property
    def first(self) -> np.ndarray | None:
        """The first of its inputs that is a float tensor, in float64."""
        return next((v.astype(np.float64) for v in self.inputs.values() if v.dtype.kind == "f"), None)


Rule = Callable[[Evidence], Mechanism | None]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Add a rule to those that `mechanisms` applies."""
    RULES.append(function)
    return function


def explained(
    name: Name, statement: str, evidence: Evidence, instead: np.ndarray, words: str, inside: slice = slice(None)
) -> Mechanism | None:
    """Return a mechanism if `instead` comes much nearer to what was given than what is right does.

    Only the positions `inside` of the last axis are looked at.
    """
    error = evidence.error
    usable = np.isfinite(error.given) & np.isfinite(error.right) & np.isfinite(instead)
    if usable.mean() < 1:
        return None
    tensors = (error.given, error.right, instead)
    given, right, instead = (np.atleast_1d(one).astype(np.float64)[..., inside] for one in tensors)
    before, after = float(np.sum((given - right) ** 2)), float(np.sum((given - instead) ** 2))
    share = float(1 - np.sqrt(after / before)) if before else 0.0
    if not share > MOSTLY:
        return None
    return Mechanism(name, statement, (f"what was given is {words}, to {100 * share:.4g} %",), explained=share)


def broadcasts(shape: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Return whether a tensor of one shape broadcasts to a result of another."""
    try:
        return np.broadcast_shapes(shape, result) == result
    except ValueError:  # they do not go together: what was not captured lies between them
        return False


def finite_pairs(evidence: Evidence) -> Iterator[np.ndarray]:
    """Yield what was given and what is right, where both are finite."""
    usable = np.isfinite(evidence.error.given) & np.isfinite(evidence.error.right)
    yield evidence.error.given[usable].astype(np.float64)
    yield evidence.error.right[usable]
