"""The four layers that let padding leak into what precedes it, made to stop where the valid part ends.

A norm takes its statistics from the valid part, a convolution is given zeros behind it, as it pads with them itself,
and the second direction of an LSTM begins at its end. Everything else in the model works on each position alone.

The methods of the classes are replaced, not those of instances, so that an exported graph keeps the module paths.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from kokoro_nb.models.padding.lengths import Valid

_given: ContextVar[Valid | None] = ContextVar("valid", default=None)


@contextmanager
def within(valid: Valid) -> Iterator[Valid]:
    """Have norms, convolutions and LSTMs read no more than `valid` says, for the calls inside.

    Where everything is valid, nothing is replaced.
    """
    if valid.length is None:
        yield valid
        return
    token = _given.set(valid)
    _install()
    try:
        yield valid
    finally:
        _remove()
        _given.reset(token)


def padded() -> bool:
    """Return whether layers read no more than a part of what they are given: see `within`."""
    return _given.get() is not None


def norm(self: nn.InstanceNorm1d, x: Tensor) -> Tensor:
    """Stand in for `InstanceNorm1d.forward`: mean and centred variance of the valid part, in plain operators."""
    valid = _given.get()
    if valid is None:
        return _originals[nn.InstanceNorm1d](self, x)
    weights, total = valid.weights(x.shape[-1], x.dtype)
    centred = x - x @ weights / total
    scale = torch.rsqrt((centred * centred) @ weights / total + self.eps)
    if not self.affine:
        return centred * scale
    return centred * (scale * self.weight[:, None]) + self.bias[:, None]


def convolution(self: nn.Conv1d, x: Tensor) -> Tensor:
    """Stand in for `Conv1d.forward`."""
    return _originals[nn.Conv1d](self, readable(self, x))


def transposed(self: nn.ConvTranspose1d, x: Tensor, output_size: list[int] | None = None) -> Tensor:
    """Stand in for `ConvTranspose1d.forward`."""
    return _originals[nn.ConvTranspose1d](self, readable(self, x), output_size)


def lstm(self: nn.LSTM, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
    """Stand in for `LSTM.forward` of one layer in two directions, batch first, from a state of zeros.

    The second direction runs over the valid part turned round, which a product with a matrix of ones and zeros does
    exactly.
    """
    valid = _given.get()
    if valid is None:
        return _originals[nn.LSTM](self, x, hx)
    turn = valid.reversal(x.shape[1], x.dtype)
    there, back = _one_way(self, x, 0), turn @ _one_way(self, turn @ x, 1)
    return torch.cat([there, back], dim=2), None


def readable(layer: nn.Conv1d | nn.ConvTranspose1d, x: Tensor) -> Tensor:
    """Return what a convolution may read of `x`, which is zeros elsewhere."""
    valid = _given.get()
    if valid is None or layer.kernel_size == (1,):  # it reads no neighbours
        return x
    return x * valid.mask(x.shape[-1], x.dtype)


def _one_way(layer: nn.LSTM, x: Tensor, direction: int) -> Tensor:
    weights = [getattr(layer, name) for name in layer._all_weights[direction]]
    zero = torch.zeros(1, x.shape[0], layer.hidden_size, dtype=x.dtype, device=x.device)
    return torch.lstm(x, (zero, zero), weights, layer.bias, 1, 0.0, False, False, True)[0]


_STAND_INS: dict[Any, Callable[..., Any]] = {
    nn.InstanceNorm1d: norm,
    nn.Conv1d: convolution,
    nn.ConvTranspose1d: transposed,
    nn.LSTM: lstm,
}
_originals: dict[Any, Callable[..., Any]] = {}
_lock, _installed, _depth = Lock(), ExitStack(), [0]


def _install() -> None:
    """Put the stand-ins in place, unless another call has: threads share the classes, but not what is valid."""
    with _lock:
        _depth[0] += 1
        if _depth[0] == 1:
            for owner, stand_in in _STAND_INS.items():
                _originals[owner] = owner.forward
                _installed.enter_context(patch.object(owner, "forward", stand_in))


def _remove() -> None:
    with _lock:
        _depth[0] -= 1
        if not _depth[0]:
            _installed.close()
