"""The kinds of faults: a name, what it does, and the operators that it can be planted at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kokoro_nb.faults import arguments, operands, results
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


def _is(*operators: str) -> Callable[[FaultSite], bool]:
    return lambda site: site.op in operators


_ALL = (
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
    FaultKind(arguments.one_pass_variance, lambda site: arguments.deviated(site) is not None),
    FaultKind(arguments.wrong_scalar, arguments.has_scalar),
    FaultKind(arguments.wrong_activation, _is("aten.leaky_relu.default", "aten.gelu.default")),
    FaultKind(arguments.wrong_function, _is(*arguments.FUNCTIONS)),
    FaultKind(arguments.overflow, _is("aten.exp.default"), finite=False),
    FaultKind(arguments.unclamped, _is("aten.clamp.default")),
    FaultKind(operands.swapped_operands, operands.is_ordered),
    FaultKind(operands.dropped_bias, operands.has_bias),
    FaultKind(operands.lost_operand, operands.is_addition),
    FaultKind(operands.stale_input, lambda site: not site.is_element and bool(operands.stale(site)), seeded=True),
    FaultKind(arguments.short_reduction, arguments.is_reduction),
    FaultKind(arguments.wrong_dilation, arguments.is_dilatable),
    FaultKind(arguments.off_by_one, lambda site: arguments.moved(site) is not None),
    FaultKind(arguments.wrong_padding, arguments.is_reflected),
    FaultKind(operands.transposed_weight, operands.has_square_weight),
    FaultKind(operands.reversed_weight, operands.has_kernel),
    FaultKind(operands.perturbed_weight, operands.has_weight, seeded=True),
    FaultKind(operands.half_weight, operands.has_weight),
    FaultKind(operands.zeroed_weight, operands.has_weight, seeded=True),
)

KINDS: Mapping[str, FaultKind] = {kind.name: kind for kind in _ALL}
