"""The layers whose graphs hang on a length, written so that one graph holds for any: for runtimes without them.

ExecuTorch has no recurrent operator and writes an LSTM out step by step, for one length; here it is a scan. Its
lowering cannot follow a size through the scale factors of `F.interpolate`; here sizes are multiplied by whole numbers.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from kokoro.istftnet import SineGen, UpSample1d
from torch import Tensor, nn

_valid: ContextVar[Tensor | None] = ContextVar("valid positions", default=None)
_lock = threading.RLock()


@contextmanager
def open_length(mask: Tensor | None = None) -> Iterator[None]:
    """Have LSTMs, up-sampling and the phase of the source computed in operators of any length, for the calls inside.

    The methods of the classes are replaced, for one thread at a time.

    Parameters
    ----------
    mask : torch.Tensor, shape (1, positions), bool, optional
        Which positions an LSTM reads: at the others its state is 0 in both directions, so that the second direction
        begins at the end of the text. All by default.
    """
    token = _valid.set(mask)
    try:
        with _lock, ExitStack() as stack:
            for owner, (name, stand_in) in _STAND_INS.items():
                stack.enter_context(patch.object(owner, name, stand_in))
            yield
    finally:
        _valid.reset(token)


def scanned_lstm(self: nn.LSTM, x: Tensor, hx: Any = None) -> tuple[Tensor, None]:
    """Stand in for `LSTM.forward` of one layer in two directions, batch first, one sequence, from a state of zeros."""
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
    return x[..., None].expand(*x.shape, times).reshape(*x.shape[:-1], -1)


def ramped(x: Tensor, times: int) -> Tensor:
    """Return the last axis up-sampled by straight lines between the middles of the blocks, level at both ends.

    >>> ramped(torch.tensor([[0.0, 4.0]]), 2).tolist()
    [[0.0, 1.0, 3.0, 4.0]]
    """
    place = (torch.arange(times) + 0.5) / times - 0.5
    after, before = place.clamp(min=0), (-place).clamp(min=0)
    left = torch.cat([x[..., :1], x[..., :-1]], dim=-1)[..., None]
    right = torch.cat([x[..., 1:], x[..., -1:]], dim=-1)[..., None]
    joined = x[..., None] * (1 - after - before) + left * before + right * after
    return joined.reshape(*x.shape[:-1], -1)


def _upsample(self: UpSample1d, x: Tensor) -> Tensor:
    return x if self.layer_type == "none" else held(x, 2)


def _nearest(self: nn.Upsample, x: Tensor) -> Tensor:
    return held(x, int(self.scale_factor))  # type: ignore[arg-type]  # one number in this model


def sine_phase(self: SineGen, f0_values: Tensor) -> Tensor:
    """Stand in for `SineGen._f02sine`: (1, samples, 9) Hz, held over blocks of 300 samples -> (1, samples, 9) sines.

    Of a block the original reads two samples in the middle, which are equal, so one is read here; the initial phase,
    which is added to the first sample, it does not read either.
    """
    block = int(self.upsample_scale)
    turns = f0_values.reshape(1, -1, block, f0_values.shape[-1])[:, :, block // 2] / self.sampling_rate
    turns = turns - torch.floor(turns)
    phase = torch.cumsum(turns, dim=1) * 2 * torch.pi
    return torch.sin(ramped(phase.transpose(1, 2) * block, block).transpose(1, 2))


_STAND_INS: dict[Any, tuple[str, Callable[..., Any]]] = {
    nn.LSTM: ("forward", scanned_lstm),
    nn.Upsample: ("forward", _nearest),
    UpSample1d: ("forward", _upsample),
    SineGen: ("_f02sine", sine_phase),
}
