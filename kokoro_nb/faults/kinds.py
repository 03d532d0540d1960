"""The kinds of faults: a name, what it does, and the operators that it can be planted at."""

from collections.abc import Callable
from dataclasses import dataclass

from kokoro_nb.faults import arguments, results
from kokoro_nb.faults.planting_site import FaultSite


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault.

    Attributes
    ----------
    apply : callable
        Plants it at a `FaultSite`; its name is the kind's, and its docstring says what it does.
    finite : bool
        Whether finite numbers stay finite, so that what comes after it can still be judged.
    seeded : bool
        Whether the seed of the fault decides anything: a channel, an element.
    """

    apply: Callable[[FaultSite], None]
    fits: Callable[[FaultSite], bool]
    finite: bool = True
    seeded: bool = False

    @property
    def name(self) -> str:
        """Name of the kind."""
        return self.apply.__name__

    @property
    def what(self) -> str:
        """What it does, in a sentence."""
        return str(self.apply.__doc__).partition("\n")[0]


_OWN = (
    FaultKind(results.nan_channel, results.is_float, finite=False, seeded=True),
    FaultKind(results.infinite_channel, results.is_float, finite=False, seeded=True),
    FaultKind(results.zeroed_channel, results.is_float, seeded=True),
    FaultKind(results.sign_flip, results.is_float),
    FaultKind(results.scaled, results.is_float),
    FaultKind(results.half_rounding, results.is_float),
    FaultKind(results.saturated, results.is_float),
    FaultKind(results.shifted, results.has_neighbours),
    FaultKind(results.swapped_results, results.is_one_of_equals),
    FaultKind(arguments.wrong_epsilon, arguments.has_epsilon),
    FaultKind(arguments.dropped_bias, arguments.has_bias),
)

KINDS: dict[str, FaultKind] = {kind.name: kind for kind in _OWN}
"""Kinds by name; a caller adds kinds of its own."""
