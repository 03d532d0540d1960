"""What a search by bisection did and found."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.locate.local_error import LocalError


@dataclass(frozen=True)
class BisectionStep:
    """One part that was compiled alone and run.

    Attributes
    ----------
    first, stop : int
        Its units, the last one excluded, counted from 0.
    wrong : tuple of LocalError
        Those of its results that rounding does not explain, in the order of execution.
    failure : str
        Why it could not be compiled or run; empty if it could.
    cached : bool
        Whether its artefact was there already.
    right : tuple of LocalError
        Figures of its results that rounding does explain.
    """

    first: int
    stop: int
    wrong: tuple[LocalError, ...] = ()
    failure: str = ""
    cached: bool = False
    right: tuple[LocalError, ...] = ()


@dataclass(frozen=True)
class Search:
    """The search for one fault.

    Attributes
    ----------
    verdict : str
        ``fail``: one operator is wrong, alone and on right inputs. ``unknown``: the whole is wrong, and no single
        operator by itself. ``pass``: every output of the whole is within what rounding explains.
    operators : tuple of str
        The operator; or, where that is unknown, those of the smallest part that was seen to be wrong.
    error : LocalError or None
        Of the operator, on right inputs.
    reason : str
        Why it is unknown.
    steps : tuple of BisectionStep
        What was compiled.
    limit : int
        How many compilations it may take to find an operator: ceil(log2(units)) + 2. Where none is wrong by itself, up
        to twice ceil(log2(units)) more go into finding the smallest part that is.
    outputs : tuple of LocalError
        Figures of the outputs of the whole, where all of them are right.
    joined : LocalError or None
        Of the smallest part that is wrong, where each of its operators is right alone: of its first wrong result.
    """

    verdict: Verdict
    operators: tuple[str, ...]
    error: LocalError | None
    reason: str
    steps: tuple[BisectionStep, ...]
    limit: int
    outputs: tuple[LocalError, ...] = ()
    joined: LocalError | None = None

    @property
    def compilations(self) -> int:
        """How many parts were compiled, those included whose artefacts were there already."""
        return len(self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "verdict": self.verdict,
            "operators": self.operators,
            "compilations": self.compilations,
            "at most": self.limit,
            "statement": self.statement,
        }

    @property
    def statement(self) -> str:
        """What was found, in one sentence."""
        if self.verdict == "pass":
            return _unseen(self.outputs)
        cost = f"after {self.compilations} compilations"
        if self.error is not None:
            size = _size(self.error)
            return f"{self.operators[0]} is wrong, alone and on right inputs, by {size}, {cost} (at most {self.limit})."
        part = f"{len(self.operators)} operators from {self.operators[0]} to {self.operators[-1]}"
        return f"No operator is seen to be wrong by itself, {cost}: {self.reason}; the smallest wrong part is {part}."


@dataclass(frozen=True)
class Bisection:
    """The searches in one program, one after another, each with the faults found before it replaced by what is right.

    Attributes
    ----------
    backend : str
        Name of the backend.
    units : int
        Number of operators that compute, each with the views that follow it.
    searches : tuple of Search
        In the order in which they were made; the last is a ``pass`` if nothing more is wrong.
    """

    backend: str
    units: int
    searches: tuple[Search, ...]

    @property
    def culprits(self) -> tuple[str, ...]:
        """The operators that were found wrong."""
        return tuple(search.operators[0] for search in self.searches if search.verdict == "fail")

    @property
    def verdict(self) -> Verdict:
        """``pass`` if no output is wrong, ``fail`` if an operator was found, else ``unknown``."""
        return self.searches[0].verdict


def _unseen(outputs: tuple[LocalError, ...]) -> str:
    """Return how far the outputs are off, and how large an error inside has to be for them to show it."""
    floats = [one for one in outputs if one.dtype.startswith("float")]
    if not floats:
        return "No output differs from what is right on these inputs; an error inside that reaches none is not seen."
    # np.max keeps NaN
    off, seen = (
        float(np.max(each)) for each in zip(*((one.of_peak, one.bound_of_peak) for one in floats), strict=True)
    )
    return (
        f"No output differs from the operators in float64 by more than {off:.2g} of its peak on these inputs; an error "
        f"inside that moves none by more than {seen:.2g} of its peak, what rounding explains, would not be seen."
    )


def _size(error: LocalError) -> str:
    if np.isinf(error.ratio):
        return f"{int(error.wrong.sum())} of {error.wrong.size} elements that are of another kind or value"
    return f"{error.of_peak:.2g} of the peak, {error.ratio:.2g} times what rounding explains"
