"""The catalogue: every case found in `cases`, and what it measures on the versions that are installed."""

import importlib
import importlib.metadata
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, get_args

from kokoro_nb.backends.base import quietly
from kokoro_nb.defects import cases, repro, runners
from kokoro_nb.errors import InputError

State = Literal["present", "gone", "SKIP"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class Defect:
    """What a converter, a runtime or a tool gets wrong, read from its case.

    Attributes
    ----------
    name : str
        Of the case's file.
    title, cause : str
        What is wrong, and why: one sentence each, from the case's docstring.
    tool : str
        Who is wrong.
    packages : tuple of str
        Distributions that the case needs; the first is to blame.
    where : str
        Files and functions of its source.
    mended_by : str
        The form that is right, the case's control.
    limit : float
        Largest error that rounding explains, of the peak of what is expected.
    varies : str
        Why another machine may not show it; empty if all do.
    case : module
        The code.
    runner : module or None
        What exports and runs a module of the case's; None where the case is about a tool.
    """

    name: str
    title: str
    cause: str
    tool: str
    packages: tuple[str, ...]
    where: str
    mended_by: str
    limit: float
    varies: str
    case: ModuleType
    runner: ModuleType | None

    @property
    def versions(self) -> dict[str, str]:
        """Return the version of each of `packages` that is installed."""
        return {name: importlib.metadata.version(name) for name in self.packages if not repro.absent((name,))}


@dataclass(frozen=True)
class Measured:
    """A defect as it is today.

    Attributes
    ----------
    defect : Defect
        What was claimed.
    broken, mended : repro.Figure or None
        Both forms; None where they cannot run.
    absent : str
        Why not; else empty.
    """

    defect: Defect
    broken: repro.Figure | None = None
    mended: repro.Figure | None = None
    absent: str = ""

    @property
    def state(self) -> State:
        """Return ``present``, ``gone`` where nothing is wrong any more, or ``SKIP`` where it cannot run here."""
        if self.broken is None:
            return "SKIP"
        return "present" if self.broken.wrong else "gone"

    @property
    def mends(self) -> bool | None:
        """Return whether the control is right; None where it cannot run here."""
        return None if self.mended is None else not self.mended.wrong

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        versions = self.defect.versions
        culprit = self.defect.packages[0]
        row: dict[str, Any] = {
            "defect": self.defect.title,
            "tool": self.defect.tool,
            "version": f"{culprit} {versions[culprit]}" if culprit in versions else "",
            "today": f"SKIP: {self.absent}" if self.absent else self.state,
        }
        if self.broken is not None and self.mended is not None:
            row |= {
                "seen": self.broken.seen,
                "expected": self.broken.expected,
                "wrong (%)": 100 * self.broken.wrong,
                "error (of peak)": self.broken.error,
                "control: wrong (%)": 100 * self.mended.wrong,
                "control: error (of peak)": self.mended.error,
            }
        return {**row, "control": self.defect.mended_by}


def measure(defect: Defect) -> Measured:
    """Run both forms of `defect` on what is installed."""
    absent = repro.absent(defect.packages)
    if absent:
        return Measured(defect, absent=absent)
    run: Callable[..., Any] | None = None if defect.runner is None else defect.runner.run
    with quietly():
        inputs = defect.case.inputs()
        broken, mended = (repro.measure(defect.case, run, inputs, form) for form in (False, True))
    return Measured(defect, broken, mended)


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


def _read(name: str) -> Defect:
    """Read one case; what it has to have is what is read here, besides `inputs`, `expected` and `seen`."""
    case = importlib.import_module(f"{cases.__name__}.{name}")
    title, _, cause = inspect.cleandoc(case.__doc__ or "").partition("\n\n")
    return Defect(
        name=name,
        title=title.removesuffix("."),
        cause=" ".join(cause.split()),
        tool=case.TOOL,
        packages=case.PACKAGES,
        where=case.WHERE,
        mended_by=case.MENDED_BY,
        limit=case.LIMIT,
        varies=case.VARIES,
        case=case,
        runner=importlib.import_module(f"{runners.__name__}.{case.RUNNER}") if case.RUNNER else None,
    )


DEFECTS: tuple[Defect, ...] = tuple(_read(found.name) for found in pkgutil.iter_modules(cases.__path__))
