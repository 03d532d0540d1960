"""The export ladder with a figure on every rung: where, between PyTorch and the artefact, the difference comes in.

Each rung is run by itself on the same inputs and held against the model as it came, in float64: eager, patched, the
exported program, the graph that the runtime is handed (run by something that is not the runtime), the artefact on its
runtime. A wrong graph is a wrong lowering; a right graph and a wrong artefact is a wrong runtime.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Arrays, Backend, Failure, RungError, on_rung, quietly
from kokoro_nb.backends.exported import Exported, InterpretedProgram, export_program
from kokoro_nb.backends.ladder import Outputs, climb
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.studies.export.decoder_exports import har_inputs
from kokoro_nb.traces.parity import Parity, compare

EAGER, PATCHED, EXPORTED, GRAPH, ARTEFACT = "eager", "patched", "exported program", "graph", "artefact on its runtime"
RUNGS = (EAGER, PATCHED, EXPORTED, GRAPH, ARTEFACT)


@dataclass(frozen=True)
class Rung:
    """One rung: a figure, a failure, or the reason why there is neither.

    Attributes
    ----------
    name : str
        One of `RUNGS`.
    parity : Parity or None
        The first output against the unpatched model in eager float64.
    failure : Failure or None
        Where it fell.
    reason : str
        Why nothing was measured, where nothing was.
    """

    name: str
    parity: Parity | None = None
    failure: Failure | None = None
    reason: str = ""

    def holds(self, limit: float) -> bool | None:
        """Say whether it is finite and within `limit` of the peak; None where nothing was measured."""
        if self.failure:
            return False
        return None if self.parity is None else self.parity.finite == 1 and self.parity.of_peak <= limit

    @property
    def cell(self) -> float | str:
        """What a heat map shows of it: the error as a share of the peak, or what came in its place."""
        if self.failure:
            return f"fail: {self.failure.error}"
        if self.parity is None:
            return f"skip: {self.reason}"
        return self.parity.of_peak


@dataclass(frozen=True)
class Ladder:
    """The rungs of one backend, from eager to the artefact."""

    backend: str
    form: str
    rungs: tuple[Rung, ...]

    def __getitem__(self, name: str) -> Rung:
        return next(rung for rung in self.rungs if rung.name == name)

    def first_wrong(self, limit: float) -> str | None:
        """Return the first rung that fell, is not finite, or is further than `limit` of the peak; None if none is."""
        return next((rung.name for rung in self.rungs if rung.holds(limit) is False), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table: finite share and error, as a share of the peak, per rung."""
        row: dict[str, Any] = {"backend": self.backend, "graph is": self.form}
        for rung in self.rungs:
            if rung.parity is None:
                row[f"{rung.name} (of peak)"] = str(rung.failure) if rung.failure else rung.reason
            else:
                row[f"{rung.name} (of peak)"] = rung.parity.of_peak
                row[f"{rung.name} (% finite)"] = 100 * rung.parity.finite
        return row


def ladders_from_har(kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str]) -> tuple[Ladder, ...]:
    """Measure the decoder from `har` on at every rung of the export ladder of each of `backends`: see `ladders`."""
    inputs = har_inputs(kokoro, case, frames)
    return ladders(kokoro.model, lambda model: stages.FromHarStage(model.decoder), inputs, EXPORT_PATCHES, backends)


def ladders(
    model: Any,
    stage: Callable[[Any], Any],
    inputs: Arrays,
    patches: Sequence[str],
    backends: Sequence[str],
    folder: str | Path | None = None,
) -> tuple[Ladder, ...]:
    """Measure every rung on each of `backends`.

    Parameters
    ----------
    model : kokoro.KModel
        Without patches; left so.
    stage : callable
        Makes the module that is exported from the model: ``lambda model: FromHarStage(model.decoder)``.
    inputs : mapping
        Name -> tensor. They must not depend on the patches, and the stage must draw no noise of its own: otherwise the
        rungs compute different things.
    patches : sequence of str
        Names of the patches that the export needs.
    backends : sequence of str
        Keys of `BACKENDS`; those without a file have no ladder and are refused by name.
    folder : path, optional
        Where artefacts are kept.
    """
    exact = climb(backend("eager-float64"), stage(model), inputs, calls=1)
    if exact.outputs is None:
        raise RungError("patched") from RuntimeError(str(exact.failure))
    reference = _first(exact.outputs)
    eager = _climbed(EAGER, reference, "eager", stage(model), inputs, folder)
    with patched(model, patches):
        module = stage(model)
        common = [eager, _climbed(PATCHED, reference, "eager", module, inputs, folder)]
        exported = export_program(module, inputs)
        if isinstance(exported, Failure):
            fallen = (*common, Rung(EXPORTED, failure=exported))
            return tuple(Ladder(name, "", fallen) for name in backends)
        program = InterpretedProgram(exported.program, exported.inputs, exported.outputs)
        common.append(_run(EXPORTED, reference, "torch.export", lambda: program, inputs))
        found = []
        for name in backends:
            rungs = (*common, *_above(backend(name), reference, exported, inputs, folder))
            found.append(Ladder(name, getattr(backend(name), "form", ""), rungs))
    return tuple(found)


def _above(
    runtime: Backend, reference: np.ndarray, exported: Exported, inputs: Arrays, folder: str | Path | None
) -> Iterator[Rung]:
    absent = runtime.available()
    if absent:
        yield from (Rung(GRAPH, reason=absent), Rung(ARTEFACT, reason=absent))
        return
    yield _run(GRAPH, reference, runtime.name, lambda: runtime.graph(exported), inputs)
    yield _climbed(ARTEFACT, reference, runtime.name, exported, inputs, folder)


def _climbed(
    name: str, reference: np.ndarray, runtime: str, module: Any, inputs: Arrays, folder: str | Path | None
) -> Rung:
    taken = climb(backend(runtime), module, inputs, folder, calls=1)
    if taken.outputs is None:
        return Rung(name, failure=taken.failure, reason=taken.unexecuted)
    return Rung(name, compare(reference, _first(taken.outputs)))


def _run(name: str, reference: np.ndarray, owner: str, make: Callable[[], Any], inputs: Arrays) -> Rung:
    try:
        with on_rung("lowered"), quietly():
            program = make()
            outputs = None if program is None else program.run(inputs)
    except RungError as error:
        return Rung(name, failure=error.failure(owner))
    if outputs is None:
        return Rung(name, reason="nothing but the runtime runs this graph")
    return Rung(name, compare(reference, _first(outputs)))


def _first(outputs: Outputs) -> np.ndarray:
    return next(iter(outputs.values()))
