"""One bias made NaN in the model that is checked, and not in the reference: which steps are wrong then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.faults import planted
from kokoro_nb.studies.validate_steps.validation import follow
from kokoro_nb.studies.validate_steps.walks import Walk

FAULTS = {
    "f0": "predictor.F0_proj.bias",
    "x": "decoder.encode.conv1.bias",
    "x_post": "decoder.generator.conv_post.bias",
}
"""Output of the step that is wrong by itself -> the parameter whose first element is made NaN."""


@dataclass(frozen=True)
class PlantedNan:
    """One fault and what it does.

    Attributes
    ----------
    parameter, output : str
        Where it is planted, and the output of the step that holds the parameter.
    wrong, chained : tuple of str
        Outputs that are wrong on the reference's inputs, and that are not finite on what the steps before computed.
    """

    parameter: str
    output: str
    wrong: tuple[str, ...]
    chained: tuple[str, ...]

    @property
    def named(self) -> bool:
        """Whether the step that holds the parameter is wrong by itself, and no other one."""
        return self.wrong == (self.output,)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        wrong, chained = ", ".join(self.wrong), ", ".join(self.chained)
        return {"planted in": self.parameter, "wrong by itself": wrong, "not finite in the chain": chained}


def planted_nans(
    model: KModel,
    reference: Walk,
    limit: float,
    name: str = "eager",
    outputs: Sequence[str] = tuple(FAULTS),
    only: Sequence[str] = (),
) -> tuple[PlantedNan, ...]:
    """Plant each fault by itself, and take the runtime `name` through the steps of the healthy `reference`.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; left as it is.
    reference : Walk
        Of the model without the fault.
    limit : float
        Largest error as a share of the peak.
    name : str
        Key of `BACKENDS`.
    outputs : sequence of str
        Keys of `FAULTS`.
    only : sequence of str
        Names of steps, where not all are to be run.
    """
    found = []
    for output in outputs:
        with planted(model, FAULTS[output], 0):
            steps = follow(model, reference, name, only=only)
        wrong = tuple(step.output for step in steps if not step.holds(limit))
        chained = tuple(step.output for step in steps if step.chained is not None and step.chained.finite < 1)
        found.append(PlantedNan(FAULTS[output], output, wrong, chained))
    return tuple(found)
