"""Find what a delegate gets wrong by withholding operators from it: what then runs in other kernels is right.

Unlike cutting, it tells a wrong delegate from a wrong program: a wrong program stays wrong wherever it runs.
"""

import math
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure, running
from kokoro_nb.backends.cuts import Cuts
from kokoro_nb.backends.executorch.partition import Withholding
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.backends.segment import output_of
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.bisection import judged_results


@dataclass(frozen=True)
class Mending:
    """What has to be withheld from a delegate for the answer to be right.

    Attributes
    ----------
    verdict : str
        ``pass``: the answer is right with nothing withheld. ``fail``: the delegate is wrong at `operators`.
        ``unknown``: the answer is wrong with everything withheld as well, or a build failed.
    operators : tuple of str
        The smallest set that was found whose withholding mends the answer, in the order of execution: an operator that
        computes, with the views that follow it.
    compilations : int
        How many builds it took, those included whose artefacts were there already.
    limit : int
        How many it may take for one fault: ceil(log2(units)) + 3.
    reason : str
        Why it is unknown.
    """

    verdict: Verdict
    operators: tuple[str, ...]
    compilations: int
    limit: int
    reason: str = ""


def mending(candidate: Exported, inputs: Arrays, backend: Withholding, folder: str | Path | None = None) -> Mending:
    """Find the smallest set of operators whose withholding from the delegate mends the answer.

    Withholding more is taken to mend no less; the set that comes out has been seen to mend the answer by itself. A
    search that was broken off goes on where it was: the builds are in `folder`.

    Parameters
    ----------
    candidate : Exported
        The program, or a copy with faults in it: then what is right comes from the program that it was changed from.
    inputs : mapping
        Array of each input by its name.
    backend : Withholding
        Withholds nothing yet.
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.

    Raises
    ------
    InputError
        If the inputs do not fit, or the backend is not `Withholding` or cannot run here.
    """
    from tqdm import tqdm

    if not isinstance(backend, Withholding):
        raise InputError(f"From {backend.name} nothing can be withheld; take a Withholding backend.")
    running(backend)
    run = _Run(backend, candidate, checked(inputs, candidate.inputs), folder)
    about = f"withholding from {backend.delegate}"
    with tqdm(total=run.limit, desc=about, unit="build", disable=None) as run.bar:
        try:
            return run.search()
        except _NotBuiltError as error:
            return run.mending("unknown", (), str(error))


class _NotBuiltError(Exception):
    """A build failed."""


@dataclass(eq=False)
class _Run:
    backend: Withholding
    candidate: Exported
    inputs: dict[str, np.ndarray]
    folder: str | Path | None
    compilations: int = 0
    bar: Any = None

    @cached_property
    def cuts(self) -> Cuts:
        return Cuts(self.candidate)

    @property
    def limit(self) -> int:
        return math.ceil(math.log2(len(self.cuts))) + 3

    def search(self) -> Mending:
        if self.right(()):
            return self.mending("pass", ())
        everything = range(len(self.cuts))
        if not self.right(everything):
            return self.mending("unknown", (), "the answer is wrong with nothing delegated as well: so is the program")
        found: list[int] = []
        while not found or not self.right(found):
            stop = found[0] if found else len(everything)
            if not stop:
                return self.mending("unknown", (), "no set of operators was found whose withholding mends the answer")
            # the last unit of the shortest row, from the first unit on, that mends the answer beside what was found
            found.insert(0, bisect_left(range(1, stop), True, key=lambda end: self.right([*range(end), *found])))
        return self.mending("fail", self._names(found))

    def _names(self, units: Collection[int]) -> tuple[str, ...]:
        return tuple(name for unit in units for name in self.cuts.names(unit, unit + 1))

    def right(self, units: Collection[int]) -> bool:
        """Build with the operators of `units` withheld, run, and return whether every output is right."""
        backend = replace(self.backend, withheld=self._names(units))
        outputs = outputs_of(backend, loaded(backend, self.candidate, self.inputs, self.folder), self.inputs)
        self.compilations += 1
        self.bar.update()
        if isinstance(outputs, Failure):
            raise _NotBuiltError(str(outputs))
        specification = self.candidate.specification
        results = {name: outputs[output] for name, output in output_of(self.candidate).items()}
        errors = judged_results(specification.named_by or specification, self.inputs, {}, results)
        return not any(error.unexplained for error in errors)

    def mending(self, verdict: Verdict, operators: tuple[str, ...], reason: str = "") -> Mending:
        return Mending(verdict, operators, self.compilations, self.limit, reason)
