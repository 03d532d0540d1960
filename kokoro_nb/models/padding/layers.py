"""The four layers that let padding leak into what precedes it, made to stop where the valid part ends.

A norm takes its statistics from the valid part, a convolution is given zeros behind it, as it pads with them itself,
and the second direction of an LSTM begins at its end. Everything else in the model works on each position alone.

The layers of one model become instances of subclasses: with another `forward` set on an instance, an exported graph
would lose the module paths.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.models.padding.lengths import Valid
from kokoro_nb.models.replaced_parts import modules_within, other_classes

_given: ContextVar[Valid | None] = ContextVar("valid", default=None)


@contextmanager
def within(module: nn.Module, valid: Valid) -> Iterator[Valid]:
    """Have norms, convolutions and LSTMs in `module` read no more than `valid` says, for the calls of this thread.

    Where everything is valid, nothing is replaced.
    """
    if valid.length is None:
        yield valid
        return
    token = _given.set(valid)
    layers = [layer for layer in modules_within(module) if isinstance(layer, tuple(_STOPPING))]
    try:
        with other_classes({layer: _padded(type(layer)) for layer in layers}):
            yield valid
    finally:
        _given.reset(token)


class _PaddedNorm(nn.InstanceNorm1d):
    def forward(self, x: Tensor) -> Tensor:
        """Return what `InstanceNorm1d` would: mean and centred variance of the valid part, in plain operators."""
        valid = _given.get()
        if valid is None:
            return super().forward(x)
        weights, total = valid.weights(x.shape[-1], x.dtype)
        centred = x - x @ weights / total
        scale = torch.rsqrt((centred * centred) @ weights / total + self.eps)
        if not self.affine:
            return centred * scale
        channels = (-1, *(1,) * (x.dim() - 2))  # x may have an axis of one before the last
        return centred * (scale * self.weight.view(channels)) + self.bias.view(channels)


class _PaddedConvolution(nn.modules.conv._ConvNd):
    def forward(self, x: Tensor, *sizes: Any) -> Tensor:
        """Return what `Conv1d` or `ConvTranspose1d` would, with zeros behind the valid part."""
        valid = _given.get()
        if valid is not None and self.kernel_size != (1,):  # else it reads no neighbours
            x = x * valid.mask(x.shape[-1], x.dtype)
        return super().forward(x, *sizes)


class _PaddedLstm(nn.LSTM):
    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:  # type: ignore[override]
        """Return what an `LSTM` of one layer in two directions would, batch first, from a state of zeros.

        The second direction runs over the valid part turned round, which a product with a matrix of ones and zeros does
        exactly.
        """
        valid = _given.get()
        if valid is None:
            return super().forward(x, hx)
        turn = valid.reversal(x.shape[1], x.dtype)
        there, back = self._one_way(x, 0), turn @ self._one_way(turn @ x, 1)
        return torch.cat([there, back], dim=2), None

    def _one_way(self, x: Tensor, direction: int) -> Tensor:
        weights = [getattr(self, name) for name in self._all_weights[direction]]
        zero = torch.zeros(1, x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
        return torch.lstm(x, (zero, zero), weights, self.bias, 1, 0.0, False, False, True)[0]


_STOPPING: dict[type[nn.Module], type[nn.Module]] = {
    nn.InstanceNorm1d: _PaddedNorm,
    nn.Conv1d: _PaddedConvolution,
    nn.ConvTranspose1d: _PaddedConvolution,
    nn.LSTM: _PaddedLstm,
}
_made: dict[type[nn.Module], type[Any]] = {}


def _padded(kind: type[nn.Module]) -> type[nn.Module]:
    """Return the subclass of a layer, or of what a patch made of one, that stops at the valid part.

    Where nothing is given, as in another thread, it computes what it did before.
    """
    if issubclass(kind, tuple(_STOPPING.values())):  # as in a context within this one, or of a copy
        return kind
    if kind not in _made:
        stopping = next(padded for plain, padded in _STOPPING.items() if issubclass(kind, plain))
        _made[kind] = type(f"Padded{kind.__name__}", (stopping, kind), {})
    return _made[kind]
