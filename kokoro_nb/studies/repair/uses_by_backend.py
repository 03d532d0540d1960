"""What each patch is for on each of several runtimes: the tables and the figure of their repairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kokoro_nb.studies.repair.uses import PatchRepair, disagreements, uses_table


@dataclass(frozen=True)
class Uses:
    """The repairs of the runtimes that are here, in order."""

    repairs: tuple[PatchRepair, ...]

    def works_unpatched(self) -> dict[str, bool]:
        """Return, by backend, whether the export works without any patch."""
        return {one.backend: one.unpatched is not None and one.unpatched.works for one in self.repairs}

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each patch of the catalogue, with what it is for on each runtime."""
        return uses_table(self.repairs)

    def disagreements(self) -> list[dict[str, str]]:
        """Return a row for each patch of which the catalogue states another use."""
        return disagreements(self.repairs)

    def proof(self) -> list[dict[str, Any]]:
        """Return a row for each patch of a smallest set, with how the rest of the set fails."""
        return [row for one in self.repairs for row in one.proof()]

    def parts(self) -> list[dict[str, Any]]:
        """Return a row for each part of the decoder with the smallest set, with units in its keys."""
        return [
            {
                "backend": one.backend,
                "stage": outcome.stage,
                "outcome": outcome.kind,
                "finite": outcome.finite,
                "error (of peak)": outcome.of_peak,
                "later calls differ by": outcome.drift,
            }
            for one in self.repairs
            for outcome in (one.found.outcomes if one.found else ())
        ]


def uses(repairs: Sequence[PatchRepair]) -> Uses:
    """Return the repairs of the runtimes that are here, as tables and a figure."""
    return Uses(tuple(one for one in repairs if not one.absent))
