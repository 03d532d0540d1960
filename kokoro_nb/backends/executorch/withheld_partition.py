"""XNNPACK's partitioner with operators kept from it, which then run in the kernels that ExecuTorch has without it."""

from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.executorch import Executorch
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError


@dataclass(frozen=True)
class Withholding(Executorch):
    """ExecuTorch with XNNPACK, but for some operators."""

    withheld: tuple[str, ...] = ()  # names of the operators that XNNPACK does not get

    def __post_init__(self) -> None:
        if self.delegate != "xnnpack":
            raise InputError(f"From '{self.delegate}' nothing can be withheld here; take the delegate 'xnnpack'.")

    def options(self) -> dict[str, Any]:
        """Return the delegate, and what is withheld."""
        return {**super().options(), "withheld": sorted(self.withheld)}

    def partitioner_for(self, exported: Exported) -> Any:
        """Return a partitioner that refuses whatever was made of a withheld operator.

        It says so to the decomposition too, so that an operator that XNNPACK would have had whole (linear, say) is
        taken apart into what the other kernels have.
        """
        partitioner: Any = self.partitioner()
        for config in partitioner.target_partitioner_configs.values():
            config.check_constraints = _refusing(config.check_constraints, exported.specification, set(self.withheld))
        return partitioner


def _refusing(check: Any, specification: Specification, withheld: set[str]) -> Any:
    def fits(node: Any, program: Any) -> bool:
        return specification.source_of(node) not in withheld and check(node, program)

    return fits
