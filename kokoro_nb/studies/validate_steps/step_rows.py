"""What is known of one step of the pipeline on one runtime: a row of the table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kokoro_nb.backends.base import Failure
from kokoro_nb.traces.statistics import Parity, allowed_error


@dataclass(frozen=True)
class StepResult:
    """One output of one step on the candidate.

    Attributes
    ----------
    step, output : str
        Names of the step and of its output: see `models.stages.chain`.
    own : Parity or None
        On the reference's inputs, against the reference; of a phase, as `phasors`.
    chained : Parity or None
        On what the candidate gave before, against the reference.
    failure : Failure or None
        Where the export or the run of the step fell.
    reason : str
        Why there is no chained figure, where there is none.
    floor, chained_floor : Parity or None
        `own` and `chained` of eager float32 against eager float64, on request: what follows the phase of
        `har` has a chained floor so high that a chained error below it means nothing.
    """

    step: str
    output: str
    own: Parity | None = None
    chained: Parity | None = None
    failure: Failure | None = None
    reason: str = ""
    floor: Parity | None = None
    chained_floor: Parity | None = None

    @property
    def over_floor(self) -> float | None:
        """How many times its own error is that of eager float32; None where that is 0 or not known."""
        if self.own is None or self.floor is None or self.floor.max_error == 0:
            return None
        return self.own.max_error / self.floor.max_error

    def holds(self, limit: float) -> bool:
        """Say whether the step by itself is finite and within `limit` of the peak.

        Where the floor is known, it may be off by a few times that, see `allowed_error`.
        """
        if self.own is None or self.own.finite < 1:
            return False
        return self.own.of_peak <= allowed_error(limit, None if self.floor is None else self.floor.of_peak)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"step": self.step, "output": self.output}
        if self.failure:
            return {**row, "own error (of peak)": str(self.failure)}
        each = (("own", self.own, self.floor), ("chained", self.chained, self.chained_floor))
        for name, parity, floor in each:
            if parity is not None:
                row |= {f"{name}: finite (%)": 100 * parity.finite, f"{name} error (of peak)": parity.of_peak}
                row |= {f"{name} floor (of peak)": floor.of_peak} if floor else {}
                row[f"{name} correlation"] = parity.correlation
        if self.over_floor is not None:
            row["own over floor"] = self.over_floor
        if self.reason:
            row["chained error (of peak)"] = self.reason
        return row


def first_wrong(steps: Sequence[StepResult], limit: float = 1e-3) -> StepResult | None:
    """Return the first step that is wrong by itself: fell, not finite, or further than `limit` of the peak."""
    return next((step for step in steps if not step.holds(limit)), None)


def with_floor(steps: Sequence[StepResult], floor: Sequence[StepResult]) -> tuple[StepResult, ...]:
    """Return `steps` with what `floor`, the same steps of eager float32 against eager float64, beside them."""
    return tuple(
        replace(step, floor=under.own, chained_floor=under.chained) for step, under in zip(steps, floor, strict=True)
    )
