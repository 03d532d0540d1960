"""13 asks at which step of the pipeline a runtime departs from PyTorch, and which steps only pass errors on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import absence
from kokoro_nb.faults import planted
from kokoro_nb.studies.validate_steps.step_rows import StepResult, with_floor
from kokoro_nb.studies.validate_steps.validation import Walk, follow, walk


@dataclass(frozen=True)
class StepsOnRuntimes:
    """The steps of one utterance on several runtimes.

    Attributes
    ----------
    floor : tuple of StepResult
        Eager float32 against eager float64.
    found : mapping
        Runtime -> its steps, with the floor of each.
    absent : mapping
        Runtime that is not here -> the reason.
    """

    floor: tuple[StepResult, ...]
    found: Mapping[str, tuple[StepResult, ...]]
    absent: Mapping[str, str]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table, with units in its keys."""
        return [{"backend": name, **step.as_dict()} for name, steps in self.found.items() for step in steps]

    def far(self, times: float = 10) -> list[dict[str, Any]]:
        """Return the rows of the steps whose own error is more than `times` that of eager float32."""
        keys = ("backend", "step", "output", "own error (of peak)", "own floor (of peak)", "own over floor")
        return [{key: row[key] for key in keys} for row in self.rows() if row.get("own over floor", 0) > times]


def on_runtimes(model: KModel, reference: Walk, names: Sequence[str], floor: Sequence[StepResult]) -> StepsOnRuntimes:
    """Take each of the runtimes that are here through the steps of `reference`.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    reference : Walk
        Eager float64.
    names : sequence of str
        Keys of `BACKENDS`.
    floor : sequence of StepResult
        Eager float32 on the same steps: see `follow`.
    """
    absent = {name: reason for name in names if (reason := absence(backend(name)))}
    found = {name: with_floor(follow(model, reference, name), floor) for name in names if name not in absent}
    return StepsOnRuntimes(tuple(floor), found, absent)
