"""Defects in other environments: each is run by their own interpreters, and the columns stand side by side."""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from kokoro_nb.defects import other_environment, repro
from kokoro_nb.defects.defect_case import Defect
from kokoro_nb.defects.defect_script import report_script
from kokoro_nb.errors import InputError
from kokoro_nb.run_apart import run_apart

Outcome = Literal["reproduced", "fixed", "not applicable", "could not run"]
PATIENCE = 600.0  # seconds for the defects of one tool; the slowest takes 20
NEEDED = ("torch", "numpy")  # what every script needs beside its packages


@dataclass(frozen=True)
class Environment:
    """An interpreter and what is installed beside it.

    Attributes
    ----------
    python : str
        Path of the interpreter.
    version, system : str
        Of Python, and of the machine.
    packages : mapping
        Distribution, as `normal_name` writes it -> version.
    """

    python: str
    version: str
    system: str
    packages: Mapping[str, str]

    def versions(self, names: Sequence[str]) -> dict[str, str]:
        """Return the versions of those of `names` that are installed."""
        return {name: self.packages[normal_name(name)] for name in names if normal_name(name) in self.packages}


@dataclass(frozen=True)
class DefectOutcome:
    """A defect in one environment.

    Attributes
    ----------
    outcome : str
        ``reproduced``; ``fixed``: nothing is wrong; ``not applicable``: the package to blame is not installed;
        ``could not run``: see `reason`.
    broken : Figure or None
        The form that fails, as it was measured.
    reason : str
        Why it is not applicable or could not run, and what else has to be known; may be empty.
    """

    outcome: Outcome
    broken: repro.Figure | None = None
    reason: str = ""


@dataclass(frozen=True)
class ComparedDefect:
    """A defect in each environment, in the order of the environments."""

    defect: Defect
    environments: tuple[Environment, ...]
    outcomes: tuple[DefectOutcome, ...]

    def labels(self) -> list[str]:
        """Return for each environment the versions that matter: those that differ, or that of the package to blame."""
        each = [one.versions(self.defect.packages) for one in self.environments]
        differ = [name for name in self.defect.packages if len({found.get(name) for found in each}) > 1]
        names = differ or self.defect.packages[:1]
        return [", ".join(f"{name} {found[name]}" for name in names if name in found) for found in each]

    def newest(self, outcome: Outcome) -> int | None:
        """Return the place of the environment with the newest versions that has this outcome; None if none has."""
        places = [place for place, one in enumerate(self.outcomes) if one.outcome == outcome]
        return max(places, key=self._age, default=None)

    @property
    def advice(self) -> str:
        """What a user can do: upgrade, pin, patch, or nothing."""
        patch = f"patch: {self.defect.mended_by}"
        there, fixed = self.newest("reproduced"), self.newest("fixed")
        if there is None:
            return "not judged in any environment" if fixed is None else "nothing to do"
        if fixed is None:
            return patch
        label = self.labels()[fixed]
        if self._age(fixed) == self._age(there):
            return f"{patch} (the versions are equal, and something else decides)"
        return f"{'upgrade' if self._age(fixed) > self._age(there) else 'pin'} to {label}, or {patch}"

    def _age(self, place: int) -> tuple[tuple[int, ...], ...]:
        found = self.environments[place].versions(self.defect.packages)
        return tuple(tuple(map(int, re.findall(r"\d+", found.get(name, "")))) for name in self.defect.packages)

    def as_dict(self) -> dict[str, Any]:
        """Return what was found, for JSON."""
        found = [
            {"python": place.python, "versions": label, "outcome": one.outcome, "reason": one.reason}
            for place, label, one in zip(self.environments, self.labels(), self.outcomes, strict=True)
        ]
        return {"defect": self.defect.name, "title": self.defect.title, "environments": found, "advice": self.advice}


def normal_name(distribution: str) -> str:
    """Return the one name that package tools know a distribution by, however it writes its own (PEP 503).

    >>> normal_name("sherpa_onnx")
    'sherpa-onnx'
    """
    return re.sub(r"[-_.]+", "-", distribution).lower()


def environment(python: str | Path = sys.executable) -> Environment:
    """Return what an interpreter has installed.

    Raises
    ------
    InputError
        If it is no interpreter of Python that can be started.
    """
    try:
        (about,) = _said(run_apart(["-I", other_environment.__file__], str(python), 60).stdout)
        packages = {normal_name(name): version for name, version in about["packages"].items() if name}
        return Environment(str(python), about["python"], about["system"], packages)
    except (OSError, ValueError, KeyError) as error:
        what = "is not a Python interpreter that can be started; give bin/python of one"
        raise InputError(f"{python} {what}.") from error


def compare_environments(
    defects: Sequence[Defect],
    environments: Sequence[Environment],
    watch: Callable[[str], None] = lambda sentence: None,
) -> tuple[ComparedDefect, ...]:
    """Run both forms of each defect in each environment, the defects of one tool in one process there.

    Parameters
    ----------
    defects : sequence of Defect
    environments : sequence of Environment
        See `environment`.
    watch : callable
        Gets a sentence before each process.
    """
    with tempfile.TemporaryDirectory() as folder:
        scripts = {each.name: Path(folder) / f"{each.name}.py" for each in defects}
        for each in defects:
            scripts[each.name].write_text(report_script(each), encoding="utf-8")
        columns = [_column(defects, one, scripts, watch) for one in environments]
    places = tuple(environments)
    return tuple(ComparedDefect(each, places, tuple(column[each.name] for column in columns)) for each in defects)


def _column(
    defects: Sequence[Defect], place: Environment, scripts: Mapping[str, Path], watch: Callable[[str], None]
) -> dict[str, DefectOutcome]:
    absent = {each.name: each.packages[0] for each in defects if not place.versions(each.packages[:1])}
    reasons = {name: f"{tool} is not installed there" for name, tool in absent.items()}
    found = {name: DefectOutcome("not applicable", reason=reason) for name, reason in reasons.items()}
    left = sorted((each for each in defects if each.name not in found), key=lambda each: (each.tool, each.name))
    for tool, group in groupby(left, key=lambda each: each.tool):
        chosen = list(group)
        watch(f"{place.python}: {len(chosen)} of {tool}")
        found |= _process(chosen, place, scripts)
    return found


def _process(defects: Sequence[Defect], place: Environment, scripts: Mapping[str, Path]) -> dict[str, DefectOutcome]:
    """Run defects in one process; where one ends it before its time, those behind it are run in another."""
    left = {str(scripts[each.name]): each for each in defects}
    found: dict[str, DefectOutcome] = {}
    while left:
        done = run_apart(["-I", other_environment.__file__, *left], place.python, PATIENCE)
        ended = (
            f"it did not end within {PATIENCE:g} s" if done.status is None else f"the process ended with {done.status}"
        )
        lines = _said(done.stdout)
        for line in (line for line in lines if "script" in line):
            each = left.pop(line["script"])
            found[each.name] = _judged(each, line["broken"], line["mended"])
        missing = next((line["missing"] for line in lines if "missing" in line), "")
        reason = f"{missing} is not installed there, which the case needs" if missing else ended
        for script in list(left) if missing else list(left)[:1]:
            found[left.pop(script).name] = DefectOutcome("could not run", reason=reason)
    return found


def _judged(defect: Defect, broken: Mapping[str, Any], mended: Mapping[str, Any]) -> DefectOutcome:
    for form, seen in (("", broken), ("its control: ", mended)):
        if "raised" in seen:
            return DefectOutcome("could not run", reason=f"{form}{seen['raised']}")
    figure, control = repro.Figure(**broken), repro.Figure(**mended)
    if control.wrong:
        why = f"its control is wrong there as well: {control.seen} where {control.expected} is right"
        return DefectOutcome("could not run", figure, why)
    return DefectOutcome("reproduced", figure) if figure.wrong else DefectOutcome("fixed", figure, defect.varies)


def _said(text: str) -> list[dict[str, Any]]:
    mark = other_environment.MARK
    return [json.loads(line.removeprefix(mark)) for line in text.splitlines() if line.startswith(mark)]
