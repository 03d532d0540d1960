"""Faults planted in a module before it is exported: taken back, bit for bit, on leaving."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kokoro_nb.errors import InputError


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


@contextmanager
def nearly_constant(
    convolution: Any, channels: int, scale: float = 1e-5, lowest: float = 1.0, highest: float = 3.0
) -> Iterator[None]:
    """Have the first `channels` channels of a convolution vary next to nothing inside; bring them back, bit for bit.

    Their weight is multiplied by `scale`, and their bias runs evenly from `lowest` to `highest`: the mean of such a
    channel is large beside its deviation, so that a variance computed as E[x²] - E[x]² keeps no correct digit and can
    come out below 0. The weights are no nonsense: a trained model may hold channels that it does not use.

    Parameters
    ----------
    convolution : torch.nn.Module
        Holds ``weight`` and ``bias``, the output channels along their first axis, as a convolution does.
    channels : int
        Number of channels, at least 1.
    lowest, highest : float
        Bias of the first and of the last of them.

    Raises
    ------
    InputError
        If the module has no such parameters or fewer channels.
    """
    parameters = dict(convolution.named_parameters(recurse=False))
    weight, bias = parameters.get("weight"), parameters.get("bias")
    if weight is None or bias is None:
        raise InputError("The module has not both a weight and a bias of its own; give a convolution with a bias.")
    if not 1 <= channels <= bias.shape[0]:
        raise InputError(f"The convolution has {bias.shape[0]} channels, not {channels}; give 1 or more of these.")
    before = weight.data[:channels].clone(), bias.data[:channels].clone()
    weight.data[:channels] *= scale
    for channel in range(channels):
        bias.data[channel] = lowest + (highest - lowest) * channel / max(1, channels - 1)
    try:
        yield
    finally:
        weight.data[:channels], bias.data[:channels] = before
