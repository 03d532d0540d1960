"""13 asks at which step of the pipeline a runtime departs from PyTorch, and which steps only pass errors on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import absence
from kokoro_nb.errors import InputError
from kokoro_nb.studies.validate_steps.step_rows import StepResult, with_floor
from kokoro_nb.studies.validate_steps.validation import follow, walk


@dataclass(frozen=True)
class StepErrors:
    """The steps of one utterance on each runtime, by its name; for a figure."""

    found: Mapping[str, Sequence[StepResult]]


@contextmanager
def planted(model: Any, parameter: str, channel: int, value: float = float("nan")) -> Iterator[None]:
    """Set one channel of a parameter to `value` inside, and bring it back, bit for bit, on leaving.

    Parameters
    ----------
    parameter : str
        Its name in ``named_parameters()``.
    channel : int
        Index along its first axis.
    value : float
        NaN, infinity, or any number.

    Raises
    ------
    InputError
        If there is no such parameter or channel.
    """
    found = dict(model.named_parameters()).get(parameter)
    if found is None:
        raise InputError(f"The model has no parameter '{parameter}'; use a name of its named_parameters().")
    if not 0 <= channel < found.shape[0]:
        raise InputError(f"'{parameter}' has {found.shape[0]} channels and no channel {channel}; count from 0.")
    before = found.data[channel].clone()
    found.data[channel] = value
    try:
        yield
    finally:
        found.data[channel] = before
