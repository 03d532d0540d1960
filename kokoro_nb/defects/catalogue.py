"""The catalogue: every defect of `cases`, and what it measures on the versions that are installed."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kokoro_nb.backends.base import quietly
from kokoro_nb.cache_keys import package_versions
from kokoro_nb.defects import cases, defect_case
from kokoro_nb.defects.defect_case import Defect
from kokoro_nb.defects.runners import RUNNERS
from kokoro_nb.errors import InputError

State = Literal["present", "gone", "SKIP"]
MEASURED_ON = {  # the versions of the tools to blame in which every defect was measured to be present
    "torch": "2.13.0",
    "executorch": "1.5.1",
    "apache-tvm": "0.27.0.post1",
    "coremltools": "9.0",
    "onnx": "1.23.2",
    "sherpa-onnx": "2.0.1",
}


@dataclass(frozen=True)
class DefectMeasurement:
    """A defect on the versions that are installed.

    Attributes
    ----------
    broken, mended : defect_case.Figure or None
        Both forms; None where they cannot run.
    absent : str
        Why not; else empty.
    """

    defect: Defect
    broken: defect_case.Figure | None = None
    mended: defect_case.Figure | None = None
    absent: str = ""

    @property
    def state(self) -> State:
        """Return ``present``, ``gone`` where nothing is wrong any more, or ``SKIP`` where it cannot run here."""
        if self.broken is None:
            return "SKIP"
        return "present" if self.broken.wrong else "gone"

    @property
    def expected(self) -> State | None:
        """Return the state that it has to be in here; None where another version or processor may have another."""
        tool = self.defect.packages[0]
        installed = versions((tool,)).get(tool, "").partition("+")[0]
        known = self.broken is not None and installed == MEASURED_ON[tool] and not self.defect.varies
        return "present" if known else None

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        tool = "".join(f"{name} {version}" for name, version in versions(self.defect.packages[:1]).items())
        row: dict[str, Any] = {"name": self.defect.name, "defect": self.defect.title, "tool": self.defect.tool}
        row |= {"version": tool, "today": f"SKIP: {self.absent}" if self.absent else self.state}
        if self.broken is not None and self.mended is not None:
            row |= {"seen": self.broken.seen, "expected": self.broken.expected}
            for control, figure in (("", self.broken), ("control: ", self.mended)):
                row |= {f"{control}wrong (%)": 100 * figure.wrong, f"{control}error (of peak)": figure.error}
        return {**row, "control": self.defect.mended_by}


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the version of each of `packages` (distributions) that is installed."""
    return {name: version for name, version in package_versions(packages).items() if version != "absent"}


def measure(defect: Defect) -> DefectMeasurement:
    """Run both forms of `defect` on what is installed; what the case itself raises there is the reason of a SKIP."""
    found = versions(defect.packages)
    lacking = next((name for name in defect.packages if name not in found), None)
    if lacking:
        return DefectMeasurement(defect, absent=f"{lacking} is not installed; install it with pip install {lacking}.")
    try:
        with quietly():
            broken, mended = (defect_case.measure(defect, RUNNERS.get(defect.runner), form) for form in (False, True))
    except Exception as error:
        return DefectMeasurement(defect, absent=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    return DefectMeasurement(defect, broken, mended)


def defect(name: str) -> Defect:
    """Return the defect of that name.

    Raises
    ------
    InputError
        If there is none.
    """
    for known in DEFECTS:
        if known.name == name:
            return known
    raise InputError(f"There is no defect {name!r}; there are {', '.join(known.name for known in DEFECTS)}.")


def _found() -> Iterator[Defect]:
    """Yield every defect of `cases`: the classes with inputs."""
    for file in pkgutil.iter_modules(cases.__path__):
        module = importlib.import_module(f"{cases.__name__}.{file.name}")
        own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
        yield from (each() for each in own if isinstance(each, type) and hasattr(each, "inputs"))


DEFECTS: tuple[Defect, ...] = tuple(sorted(_found(), key=lambda known: known.name))
