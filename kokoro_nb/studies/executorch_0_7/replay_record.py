"""The recorded replays of ExecuTorch 0.7.0 and of today: statistics of each call, neither weights nor audio."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.locate.tapping import History
from kokoro_nb.storage import read_json
from kokoro_nb.studies.executorch_0_7.replay_plan import ReplayTrial

RIGHT = (
    1e-3  # of the peak: float32 runtimes agree with eager to 1e-4 from `har` on, the fault moves it by 1e-2 and more
)
_FOLDER = Path(__file__).parents[3] / "data" / "replay"


@dataclass(frozen=True)
class ReplayCall:
    """One call on the inputs of the trial.

    Attributes
    ----------
    after : str
        What the freshly loaded program had been called with before, besides these inputs: one of `plan.SEQUENCES`.
    number : int
        0 for the first call after loading; then those after `after`.
    finite : float
        Share of the output that is finite.
    of_peak, snr_db : float
        Largest difference to eager in float64 as a share of its peak, and the energies' ratio, dB.
    change : float
        Largest absolute difference to the call with number 0; NaN where one of the two only is not finite.
    """

    after: str
    number: int
    finite: float
    of_peak: float
    snr_db: float
    change: float


@dataclass(frozen=True)
class ReplayOutcome:
    """What came of one trial.

    Attributes
    ----------
    eager_finite : float
        Share of eager's output that is finite, of the PyTorch beside that ExecuTorch.
    error : str
        Where it fell from the ladder and why; empty if it did not.
    norms, used_before : int
        Instance norms that run in ExecuTorch's own kernels, and those of them whose statistics lie, by the plan in the
        file, in memory that was used earlier in the same call.
    """

    trial: ReplayTrial
    eager_finite: float
    error: str
    calls: tuple[ReplayCall, ...]
    norms: int
    used_before: int

    @property
    def first(self) -> ReplayCall | None:
        """The very first call; None if none came about."""
        return self.calls[0] if self.calls else None

    @property
    def history(self) -> History:
        """Whether later calls gave another answer, by what had been run before."""
        changes: dict[str, float] = {}
        for call in self.calls:
            if call.number:  # a fault that stays shows on each later call; NaN is the worst
                changes[call.after] = float(np.max([changes.get(call.after, 0.0), call.change]))
        return History(changes)

    @property
    def verdict(self) -> str:
        """``no result``; ``not finite`` or ``wrong`` at the first call; ``depends on history``; or ``right``."""
        if self.first is None:
            return "no result"
        if self.first.finite < 1:
            return "not finite"
        if not self.first.of_peak <= RIGHT:
            return "wrong"
        return "depends on history" if self.history.depends else "right"

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        figures: dict[str, Any] = {}
        if self.first is not None:
            figures = {
                "finite (%)": 100 * self.first.finite,
                "error (of peak)": self.first.of_peak,
                "SNR (dB)": self.first.snr_db,
                "later calls differ by": float(np.max(list(self.history.changes.values()))),
            }
        about = {"eager finite (%)": 100 * self.eager_finite, "norms": self.norms}
        return {**about, "verdict": self.verdict, **figures, "why": self.error}

    def call(self, after: str, number: int) -> ReplayCall | None:
        """Return one call; None if it did not come about."""
        return next((call for call in self.calls if (call.after, call.number) == (after, number)), None)


@dataclass(frozen=True)
class Replay:
    """Everything that one version gave.

    Attributes
    ----------
    versions : dict
        Package -> version there.
    machine, date : str
        Kind of the machine, and day on which it was executed.
    frames : int
        Length of the decoder, 40 to the second.
    predicted : tuple of dict
        Of the norm alone, per call: its error of the peak against eager, and against the suspected kernel.
    search : dict
        Norms of the block of `plan.SYMPTOM`, and which is the first wrong one.
    """

    versions: Mapping[str, str]
    machine: str
    date: str
    weights: str
    frames: int
    outcomes: tuple[ReplayOutcome, ...]
    predicted: tuple[Mapping[str, float], ...]
    search: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Version, and when it was executed: what stands beside every figure."""
        return f"ExecuTorch {self.versions['executorch']} (recorded on {self.date}, {self.machine})"

    def outcome(self, trial: ReplayTrial) -> ReplayOutcome:
        """Return what came of `trial`.

        Raises
        ------
        InputError
            If it was not replayed.
        """
        for outcome in self.outcomes:
            if outcome.trial == trial:
                return outcome
        raise InputError(f"'{trial.name}' was not replayed on {self.label}.")


def recorded(name: str = "executorch_0_7") -> Replay:
    """Return a replay that comes with the project: ``executorch_0_7`` or ``today``.

    Raises
    ------
    InputError
        If it is not there.
    """
    values: Any = _numbers(read_json(_FOLDER / f"{name}.json", "recorded replay"))
    about = {key: values[key] for key in ("versions", "machine", "date", "weights", "frames", "search")}
    outcomes = tuple(_outcome(row) for row in values["outcomes"])
    return Replay(**about, outcomes=outcomes, predicted=tuple(values["predicted"]))


def _numbers(value: Any) -> Any:
    """Return what JSON held with NaN and infinities as numbers again, which `storage.write_json` wrote as text."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _outcome(row: Mapping[str, Any]) -> ReplayOutcome:
    trial = ReplayTrial(**{**row["trial"], "patches": tuple(row["trial"]["patches"])})
    return ReplayOutcome(**{**row, "trial": trial, "calls": tuple(ReplayCall(**call) for call in row["calls"])})
