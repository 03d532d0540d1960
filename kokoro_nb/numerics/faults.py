"""Faults planted on purpose: what a check must reject before its passing means anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kokoro_nb.errors import InputError


@contextmanager
def planted(model: Any, parameter: str, channel: int, value: float = float("nan")) -> Iterator[None]:
    """Set one channel of a parameter to `value` inside, and bring it back, bit for bit, on leaving.

    Parameters
    ----------
    model : torch.nn.Module
        Holds the parameter.
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
