"""Both replays beside each other, 0.7.0 and today's: the rows of every table that compares them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.models.patches import patched
from kokoro_nb.studies.executorch_0_7 import replay_plan as plan
from kokoro_nb.studies.executorch_0_7.old_environment import absent, old_python
from kokoro_nb.studies.executorch_0_7.replay_record import Replay, recorded, write_replay
from kokoro_nb.studies.executorch_0_7.replay_run import replay

if TYPE_CHECKING:
    from kokoro.model import KModel

    from kokoro_nb.models.case import Case

Row = dict[str, Any]


@dataclass(frozen=True)
class Controls:
    """The verdict on the first block by patches and version: name of the trial -> name of the version -> verdict."""

    verdicts: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Replays:
    """What ExecuTorch 0.7.0 and today's version computed of the same trials.

    Attributes
    ----------
    old, today : Replay
        The old one is the recorded one where its environment is not set up.
    reason : str
        Why the old one was not executed now; empty if it was.
    sounds : dict
        Version -> audio of `plan.SOUND`, (samples,), float32, 24 kHz, full scale 1, where it was executed.
    """

    old: Replay
    today: Replay
    reason: str
    sounds: dict[str, np.ndarray]

    @property
    def both(self) -> tuple[Replay, Replay]:
        """The old one before today's."""
        return self.old, self.today

    @property
    def label(self) -> str:
        """Label of the weights; a record has its own."""
        return " | ".join(dict.fromkeys([self.today.weights, self.old.weights]))

    def write(self, path: Path) -> None:
        """Save what 0.7.0 computed, where it was executed now."""
        if not self.reason:
            write_replay(path, self.old)

    def versions(self) -> list[Row]:
        """Return a row for each replay: what is compared."""
        return [
            {"replay": one.label, **one.versions, "frames": one.frames, "weights": one.weights} for one in self.both
        ]

    def rows(self, trials: Sequence[plan.ReplayTrial]) -> list[Row]:
        """Return a row for each trial and version that executed it, with its outcome."""
        known = self.known(trials)
        return [{"export": trial.name, "replay": one.label, **one.outcome(trial).as_dict()} for trial, one in known]

    def known(self, trials: Sequence[plan.ReplayTrial]) -> list[tuple[plan.ReplayTrial, Replay]]:
        """Return those pairs of a trial and a version that were executed."""
        return [
            (trial, one) for trial in trials for one in self.both if any(found.trial == trial for found in one.outcomes)
        ]

    def symptom(self) -> list[Row]:
        """Return the rows of the symptom, with how much of PyTorch's own output is finite."""
        found = [(one.label, one.outcome(plan.SYMPTOM)) for one in self.both]
        return [
            {"replay": name, "eager finite (%)": 100 * outcome.eager_finite, **outcome.as_dict()}
            for name, outcome in found
        ]

    def pieces(self) -> list[Row]:
        """Return the rows of the pieces, with how many norms each holds."""
        found = [(piece.cut, one.label, one.outcome(piece)) for piece in plan.PIECES for one in self.both]
        return [
            {"piece": cut, "replay": name, "norms": outcome.norms, **outcome.as_dict()} for cut, name, outcome in found
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


def replays(model: "KModel", case: "Case", weights: str, seed: int, frames: int, large: bool = False) -> Replays:
    """Execute the trials on today's version and, where its environment is set up, on 0.7.0.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    weights, seed
        What `model` was loaded with: the other environment loads it again.
    frames : int
        How much of the utterance.
    large : bool
        Whether `plan.LARGE`, which takes minutes, is executed too.
    """
    from kokoro_nb.models import stages

    inputs = case.decoder_inputs(frames)
    with patched(model, plan.AS_IT_IS):
        har = stages.from_har_inputs(model.decoder, inputs)["har"]
    requested = (weights, seed, {**inputs, "har": har}, (*plan.TRIALS, *(plan.LARGE if large else ())))
    reason = absent() or ""
    today, sound_today = replay(sys.executable, *requested)
    old, sound_old = (recorded(), None) if reason else replay(old_python(), *requested)
    sounds = {"ExecuTorch 0.7.0, both patches": sound_old, "today, both patches": sound_today}
    return Replays(old, today, reason, {name: sound for name, sound in sounds.items() if sound is not None})
