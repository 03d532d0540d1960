"""The kinds of faults: a name, what it does, and the operators that it can be planted at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kokoro_nb.faults import arguments, constants, operands, positions, results
from kokoro_nb.faults.planting_site import Site


@dataclass(frozen=True)
class Kind:
    """One kind of fault.

    Attributes
    ----------
    apply : callable
        Plants it at a `Site`; its name is the kind's, and its docstring says what it does.
    fits : callable
        Whether it can be planted there.
    finite : bool
        Whether finite numbers stay finite, so that what comes after it can still be judged.
    seeded : bool
        Whether the seed of the fault decides anything: a channel, an element.
    """

    apply: Callable[[Site], None]
    fits: Callable[[Site], bool]
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


_ALL = (
    Kind(results.nan_channel, results.is_float, finite=False, seeded=True),
    Kind(results.infinite_channel, results.is_float, finite=False, seeded=True),
    Kind(results.zeroed_channel, results.is_float, seeded=True),
    Kind(results.sign_flip, results.is_float),
    Kind(results.scaled, results.is_float),
    Kind(results.half_rounding, results.is_float),
    Kind(results.saturated, results.is_float),
    Kind(results.shifted, results.has_neighbours),
    Kind(results.swapped_results, results.is_one_of_equals),
    Kind(arguments.wrong_epsilon, arguments.has_epsilon),
    Kind(positions.one_pass_variance, positions.is_variance),
    Kind(arguments.wrong_scalar, arguments.has_scalar),
    Kind(arguments.wrong_activation, arguments.is_activation),
    Kind(arguments.wrong_function, arguments.is_function),
    Kind(arguments.overflow, arguments.is_exponential, finite=False),
    Kind(arguments.unclamped, arguments.is_clamp),
    Kind(operands.swapped_operands, operands.is_ordered),
    Kind(operands.dropped_bias, operands.has_bias),
    Kind(operands.lost_operand, operands.is_addition),
    Kind(operands.stale_input, operands.has_stale_input, seeded=True),
    Kind(positions.short_reduction, positions.is_reduction),
    Kind(positions.wrong_dilation, positions.is_dilatable),
    Kind(positions.off_by_one, positions.is_positioned),
    Kind(positions.wrong_padding, positions.is_reflected),
    Kind(constants.transposed_weight, constants.has_square_weight),
    Kind(constants.reversed_weight, constants.has_kernel),
    Kind(constants.perturbed_weight, constants.has_weight, seeded=True),
    Kind(constants.half_weight, constants.has_weight),
    Kind(constants.zeroed_weight, constants.has_weight, seeded=True),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
