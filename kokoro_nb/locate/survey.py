"""One module exported to several backends and compared with float64, with the rounding of eager float32 beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Arrays, Backend, Failure
from kokoro_nb.backends.exported import as_exported
from kokoro_nb.backends.ladder import Climb, climb
from kokoro_nb.findings import Verdict
from kokoro_nb.traces.statistics import Parity, compare


@dataclass(frozen=True)
class SurveyRow:
    """One backend's result.

    Attributes
    ----------
    backend : str
        Its name.
    absent : str or None
        Why it cannot run here; then nothing was measured.
    climb : Climb or None
        How far it came.
    eager32 : Parity or None
        The output that is furthest from eager float32, against it.
    eager64 : Parity or None
        The same output against eager float64.
    floor : Parity or None
        Of it, eager float32 against eager float64: no float32 runtime can be nearer.
    eager_seconds : float
        One call of the patched module in eager float32.
    """

    backend: str
    absent: str | None = None
    climb: Climb | None = None
    eager32: Parity | None = None
    eager64: Parity | None = None
    floor: Parity | None = None
    eager_seconds: float = float("nan")

    @property
    def failure(self) -> Failure | None:
        """Where the export or the run failed; None if it runs or was not tried."""
        return self.climb.failure if self.climb else None

    @property
    def unexecuted(self) -> str:
        """Why the artefact was built and not run; empty if it was run, or not built."""
        return self.climb.unexecuted if self.climb else ""

    @property
    def verdict(self) -> Verdict:
        """Whether it runs: ``pass``, ``fail``, or ``skip`` where the runtime is absent or only builds here."""
        if self.absent or self.unexecuted:
            return "skip"
        return "fail" if self.failure else "pass"

    @property
    def outcome(self) -> str:
        """``runs``, on which rung it failed with the first line of the error, or why it was not built or not run."""
        if self.absent:
            return f"SKIP: {self.absent}"
        if self.unexecuted:
            return f"built, and not run: {self.unexecuted}"
        return f"failed {str(self.failure).partition(' failed ')[2]}" if self.failure else "runs"

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"backend": self.backend, "outcome": self.outcome}
        if self.climb is None or self.climb.failure:
            return row
        taken = dict(self.climb.seconds)
        row["size (MB)"] = self.climb.size / 1e6
        row["export (s)"] = sum(taken.get(rung, 0.0) for rung in ("exported", "lowered", "serialised"))
        if self.unexecuted:
            return row
        row["load (s)"] = taken.get("loaded", float("nan"))
        row["run (s)"] = min(self.climb.calls)
        row["run / eager"] = row["run (s)"] / self.eager_seconds
        if self.eager32 and self.eager64 and self.floor:
            row["finite (%)"] = 100 * self.eager32.finite
            row["to eager (of peak)"] = self.eager32.of_peak
            row["to float64 (of peak)"] = self.eager64.of_peak
            row["floor (of peak)"] = self.floor.of_peak
        row["later calls differ by"] = self.climb.drift
        return row


def survey(
    module: Any, inputs: Arrays, backends: Sequence[str | Backend], calls: int = 3, folder: str | Path | None = None
) -> tuple[SurveyRow, ...]:
    """Take `module` up the ladder of each of `backends`; what fails is a row with its error.

    Parameters
    ----------
    module : torch.nn.Module or Exported
        Patched as it is to be exported. Of several outputs the one that is furthest from eager float32 is shown.
    inputs : mapping
        Name -> tensor.
    backends : sequence of str or Backend
        Keys of `BACKENDS`, or others.
    calls : int
        Calls on each loaded program.
    folder : path, optional
        Where artefacts are saved.
    """
    double = _light(climb(backend("eager-float64"), module, inputs, folder, calls=1))
    single = _light(climb(backend("eager"), module, inputs, folder, calls=2))
    shared = as_exported(module, inputs, "torch.export")
    rows = []
    for one in backends:
        runtime = backend(one) if isinstance(one, str) else one
        name, absent = runtime.name, runtime.available()
        if absent:
            rows.append(SurveyRow(name, absent=absent))
            continue
        taken = _light(climb(runtime, module if name.startswith("eager") else shared, inputs, folder, calls))
        rows.append(_measure(name, taken, single, double))
    return tuple(rows)


def _light(taken: Climb) -> Climb:
    """Return a climb without the module that an artefact in memory is: a copy of the weights, in float64 twice that."""
    made = taken.artifact
    return taken if made is None or made.program is None else replace(taken, artifact=replace(made, program=None))


def _measure(name: str, taken: Climb, single: Climb, double: Climb) -> SurveyRow:
    fast = min(single.calls) if single.calls else float("nan")
    if taken.outputs is None or single.outputs is None or double.outputs is None:
        return SurveyRow(name, climb=taken, eager_seconds=fast)
    found = {output: compare(right, taken.outputs[output]) for output, right in single.outputs.items()}
    furthest = [*found][int(np.argmax([one.of_peak for one in found.values()]))]  # a NaN is
    given, reference, exact = (each[furthest] for each in (taken.outputs, single.outputs, double.outputs))
    return SurveyRow(name, None, taken, found[furthest], compare(exact, given), compare(exact, reference), fast)
