"""Both replays beside each other, 0.7.0 and today's: the rows of every table that compares them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kokoro_nb.studies.executorch_0_7 import replay_plan as plan
from kokoro_nb.studies.executorch_0_7.replay_record import Replay, recorded

Row = dict[str, Any]


@dataclass(frozen=True)
class Controls:
    """The verdict on the first block by patches and version: name of the trial -> name of the version -> verdict."""

    verdicts: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Replays:
    """What ExecuTorch 0.7.0 and today's version computed of the same trials."""

    old: Replay
    today: Replay

    @property
    def both(self) -> tuple[Replay, Replay]:
        """The old one before today's."""
        return self.old, self.today

    @property
    def label(self) -> str:
        """Label of the weights; each record has its own."""
        return " | ".join(dict.fromkeys([self.today.weights, self.old.weights]))

    def versions(self) -> list[Row]:
        """Return a row for each replay: what is compared."""
        return [
            {"replay": one.label, **one.versions, "frames": one.frames, "weights": one.weights} for one in self.both
        ]

    def rows(self, trials: Sequence[plan.ReplayTrial]) -> list[Row]:
        """Return a row for each trial and version, with its outcome."""
        return [
            {"export": trial.name, "replay": one.label, **one.outcome(trial).as_dict()}
            for trial in trials
            for one in self.both
        ]

    def norms(self) -> list[Row]:
        """Return the norms of the whole block in the order of execution."""
        return [{"replay": one.label, **row} for one in self.both for row in one.search["norms"]]

    def search(self) -> list[Row]:
        """Return the result of the search of the whole block."""
        rows = []
        for one in self.both:
            first = one.search["first nonfinite"]
            row = {"replay": one.label, "first not finite": first["tap"] or "none", "channels": first["channels"]}
            rows.append({**row, "looking": one.search["probe"]})
        return rows

    def predicted(self) -> list[Row]:
        """Return each call of the norm alone with its difference to eager and to the suspected kernel."""
        titles = {f"{what} (of peak)": what for what in ("from eager", "from the suspect")}
        return [
            {"replay": one.label, "call": int(row["call"]), **{title: row[what] for title, what in titles.items()}}
            for one in self.both
            for row in one.predicted
        ]

    def history(self, trial: plan.ReplayTrial) -> list[Row]:
        """Return how later calls of a trial change by what it was called with in between."""
        rows: list[Row] = []
        for one in self.both:
            outcome = one.outcome(trial)
            for after in plan.SEQUENCES:
                row = {"replay": one.label, "called in between with": after, "change": outcome.history.changes[after]}
                calls = {number: outcome.call(after, number) for number in (1, 2)}
                rows.append(
                    row | {f"finite (%), call {n} after": 100 * call.finite for n, call in calls.items() if call}
                )
        return rows

    def memory(self, trials: Sequence[plan.ReplayTrial]) -> list[Row]:
        """Return how many norms of each trial have their statistics in memory that was used before."""
        found = [(trial, one, one.outcome(trial)) for trial in trials for one in self.both]
        return [
            {"program": trial.name, "replay": one.label, "norms": outcome.norms}
            | {"of them in memory used before": outcome.used_before, "verdict": outcome.verdict}
            for trial, one, outcome in found
        ]

    def controls(self) -> Controls:
        """Return the verdicts of the controls."""
        return Controls(
            {trial.name: {one.label: one.outcome(trial).verdict for one in self.both} for trial in plan.CONTROLS}
        )


def replays() -> Replays:
    """Return the replays that come with the project."""
    return Replays(recorded(), recorded("today"))
