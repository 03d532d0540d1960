"""Two runs of the loop compared call by call: the first tensor that differs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.generation import Speech, Step, Steps, Values
from kokoro_nb.models.pocket.pocket_steps import StepModule
from kokoro_nb.studies.pockettts.bugs import Attempt, Bug

_EAGER = Eager("eager")


@dataclass(frozen=True)
class StepCall:
    """One call of a step, as the step itself saw it."""

    place: str
    step: str
    inputs: Values
    outputs: Values


@dataclass(frozen=True)
class FirstDifference:
    """Where two runs part.

    Attributes
    ----------
    place : str
        The first call that differs; empty if none does.
    operator : str
        The first operator in it whose result differs.
    """

    place: str = ""
    given: tuple[str, ...] = ()
    operator: str = ""
    made: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "first call": self.place or "none",
            "given": ", ".join(self.given),
            "first operator": self.operator,
            "made": ", ".join(self.made),
        }


def recorded(attempt: Attempt, bug: Bug | None = None) -> tuple[Speech, tuple[StepCall, ...]]:
    """Speak, with a mistake or without, and record every call.

    The mistake may be in what the host does or within a step: a call is recorded as the step without it was called.
    """
    recorder = StepRecorder(attempt.steps)
    listened = replace(attempt, steps=recorder.steps)
    speech = (bug.apply(listened) if bug else listened).speak(recorder.place)
    return speech, tuple(recorder.calls)


class StepRecorder:
    """Steps that record each of their calls.

    Attributes
    ----------
    steps : dict
        The same, recorded.
    calls : list of StepCall
        In order; the place is the step's name until `place` gets it.
    """

    def __init__(self, steps: Steps):
        self.calls: list[StepCall] = []
        self.steps = {name: self._listened(name, step) for name, step in steps.items()}

    def place(self, place: str, _step: str, _inputs: Values, _outputs: Values) -> None:
        """Give the last call its place: to be handed to `generation.speak` as `watch`."""
        self.calls[-1] = replace(self.calls[-1], place=place)

    def _listened(self, name: str, step: Step) -> Step:
        def run(inputs: Values) -> Values:
            outputs = step(inputs)
            self.calls.append(StepCall(name, name, inputs, outputs))
            return outputs

        return run


def first_difference(
    right: tuple[StepCall, ...], wrong: tuple[StepCall, ...], modules: Mapping[str, StepModule]
) -> FirstDifference:
    """Return where `wrong` parts from `right`, two runs of the same programs on one machine: any bit counts.

    Parameters
    ----------
    right, wrong : tuple of StepCall
        See `recorded`.
    modules : mapping
        The steps, whose operators are then traced on both inputs.

    Raises
    ------
    InputError
        If the two do not call the same steps up to there.
    """
    for one, other in zip(right, wrong, strict=False):
        if one.place != other.place:
            raise InputError(f"One run calls '{one.place}' where the other calls '{other.place}'; compare like runs.")
        given, made = _differing(one.inputs, other.inputs), _differing(one.outputs, other.outputs)
        if given or made:
            return FirstDifference(one.place, given, _first_operator(modules[one.step].module, one, other), made)
    return FirstDifference()


def _first_operator(module: nn.Module, one: StepCall, other: StepCall) -> str:
    """Return the name of the first operator that gives another result on the inputs of `other`."""
    exported = export_program(module, one.inputs)
    if isinstance(exported, Failure):
        raise InputError(f"The step at '{one.place}' cannot be exported and traced: {exported}")
    program = _EAGER.load(_EAGER.export(exported, one.inputs))
    right, wrong = (program.trace(call.inputs, keep="full").values for call in (one, other))
    return next((name for name, value in right.items() if not np.array_equal(value, wrong[name])), "")


def _differing(one: Values, other: Values) -> tuple[str, ...]:
    return tuple(name for name in one if not np.array_equal(one[name], other[name]))
