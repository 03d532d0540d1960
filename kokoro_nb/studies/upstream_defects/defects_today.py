"""Each known defect executed on the versions that are installed: the rows of its tables, and a bundle of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.defects import DEFECTS, STATES, DefectMeasurement, defect, measure, write_bundle


@dataclass(frozen=True)
class DefectsToday:
    """What was measured, defect by defect."""

    measured: tuple[DefectMeasurement, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each defect, with units in its keys."""
        return [each.as_dict() for each in self.measured]

    def counts(self) -> list[dict[str, Any]]:
        """Return a row for each tool, with how many of its defects are in each state."""
        rows = []
        for tool in sorted({each.defect.tool for each in self.measured}):
            states = [each.state for each in self.measured if each.defect.tool == tool]
            row: dict[str, Any] = {"tool": tool}
            rows.append(row | {state: states.count(state) for state in STATES})
        return rows

    def causes(self) -> list[dict[str, Any]]:
        """Return a row for each defect, with its cause and where it is in the source of the tool."""
        known = [each.defect for each in self.measured]
        return [{"defect": one.title, "cause": one.cause, "where": one.where, "varies": one.varies} for one in known]

    def write_bundles(self, folder: Path) -> dict[str, str]:
        """Write a bundle of each defect below ``folder / "bundles"``; return the path of each, relative to `folder`."""
        paths = {}
        for each in self.measured:
            name = each.defect.name
            paths[name] = str(write_bundle(each.defect, folder / "bundles" / name, each).relative_to(folder))
        return paths


def defects_today(names: Sequence[str] = ()) -> DefectsToday:
    """Measure the defects of these names, all of the catalogue where none is named.

    Raises
    ------
    InputError
        If there is no defect of such a name.
    """
    return DefectsToday(tuple(measure(each) for each in [defect(name) for name in names] or DEFECTS))
