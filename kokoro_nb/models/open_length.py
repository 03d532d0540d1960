"""The layers whose graphs hang on a length, written so that one graph holds for any: for runtimes without them.

ExecuTorch has no recurrent operator and writes an LSTM out step by step, for one length; here it is a scan. Its
lowering cannot follow a size through the scale factors of `F.interpolate`; here sizes are multiplied by whole numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from kokoro.istftnet import UpSample1d
from torch import Tensor, nn

from kokoro_nb.models.other_layers import modules_within, other_classes

_valid: ContextVar[Tensor | None] = ContextVar("valid positions", default=None)


@contextmanager
def open_length(module: nn.Module, mask: Tensor | None = None) -> Iterator[None]:
    """Have the LSTMs and up-sampling in `module` computed in operators of any length.

    The source's phase, which hangs on a length too, is the patch ``ramped_phase``'s.

    Parameters
    ----------
    module : torch.nn.Module
        Its layers are of other classes inside.
    mask : torch.Tensor, shape (1, positions), bool, optional
        Which positions an LSTM reads: at the others its state is 0 in both directions, so that the second direction
        begins at the end of the text. All by default.
    """
    token = _valid.set(mask)
    try:
        with other_classes({each: _OPEN[type(each)] for each in modules_within(module) if type(each) in _OPEN}):
            yield
    finally:
        _valid.reset(token)


class ScannedLstm(nn.LSTM):
    """An `nn.LSTM` of one layer in two directions, batch first, as a scan over one sequence, from a state of zeros."""

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, None]:  # type: ignore[override]
        """Return (1, positions, 2 * hidden) and no state."""
        mask = _valid.get()
        mask = torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask
        there = _direction(self, x, mask, 0)
        back = _direction(self, x.flip(1), mask.flip(1), 1).flip(1)
        return torch.cat([there, back], dim=2), None


def _direction(layer: nn.LSTM, x: Tensor, mask: Tensor, direction: int) -> Tensor:
    from torch._higher_order_ops.scan import scan

    names = layer._all_weights[direction]
    into, hidden, bias, hidden_bias = (getattr(layer, name) for name in names)
    size, gates = layer.hidden_size, F.linear(x[0], into, bias + hidden_bias)

    def step(state: list[Tensor], given: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        (h, c), (gate, here) = state, given
        gate = gate[None] + F.linear(h, hidden)
        enter, forget, new, out = (gate[:, number * size : (number + 1) * size] for number in range(4))
        c = (torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(new)) * here
        h = torch.sigmoid(out) * torch.tanh(c) * here
        return [h, c], [h.clone()]

    begin = torch.zeros(1, size, dtype=x.dtype)
    _, (states,) = scan(step, [begin, begin.clone()], [gates, mask[0][:, None].to(x.dtype)])
    return states.transpose(0, 1)


def held(x: Tensor, times: int) -> Tensor:
    """Return each position of the last axis `times` times: up-sampling to the nearest.

    >>> held(torch.tensor([[1, 2]]), 3).tolist()
    [[1, 1, 1, 2, 2, 2]]
    """
    # without reading a size: in a trace coremltools 9.0 makes no number of one that is fixed (with NumPy 2.4)
    return x[..., None].expand(*[-1] * x.dim(), times).flatten(-2)


class HeldUpSample1d(UpSample1d):
    """An `UpSample1d` of sizes multiplied by whole numbers."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each position twice, or `x` itself."""
        return x if self.layer_type == "none" else held(x, 2)


class HeldUpsample(nn.Upsample):
    """An `nn.Upsample` to the nearest of sizes multiplied by a whole number."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each position as many times as the scale factor says, which is one number in this model."""
        return held(x, int(self.scale_factor))  # type: ignore[arg-type]


_OPEN: dict[type[nn.Module], type[nn.Module]] = {
    nn.LSTM: ScannedLstm,
    nn.Upsample: HeldUpsample,
    UpSample1d: HeldUpSample1d,
}
