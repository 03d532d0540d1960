"""Static shapes that are exact: every part of the model in a buffer, with the true length as an input.

Padding is not neutral. AdaIN takes its mean and variance from whatever is in the buffer, the second direction of an
LSTM begins in the padding, a convolution reads what its layer before made of it, and both ends of the STFT move. A
stage or step that is given ``length``, int64 of shape (1,), gives for the valid part what it gives without padding,
whatever stands behind it, and zeros behind: `stages`, `speaking.DurationStage`, and `speaking.CompleteStage`
with ``exact=True``, which computes the lengths itself. Shapes are static and no operator's choice hangs on a value, so
each exporter takes them, under any of the model's patches. One buffer serves every length from 1 token, or 2 frames, up
to its size.

`Valid`, `of_frames` and `within` make other modules exact; `widened` puts inputs into longer buffers.

Four layers let padding leak into what precedes it. A norm takes its statistics from the valid part, a convolution is
given zeros behind it, as it pads with them itself, and the second direction of an LSTM begins at its end. Everything
else in the model works on each position alone.

The layers of one model become instances of subclasses: with another `forward` set on an instance, an exported graph
would lose the module paths.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from kokoro.istftnet import UpSample1d
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.noise import set_inside
from kokoro_nb.models.rewrites import modules_within, other_classes

RATES = ((1, 0), (2, 0), (20, 0), (120, 1), (SAMPLES_PER_FRAME, 0))  # positions per frame, and one more for the STFT
LIGHT = 2.0**-10  # the weight of one position in a mean: 45 s of them add up to 211, within the range of float16


class Valid:
    """The valid part of every buffer that a computation passes: what a length says, or everything.

    A buffer is known by its size: no two rates of one utterance share one.

    Parameters
    ----------
    room : int
        Size of the buffer, in tokens or frames.
    length : torch.Tensor, shape (1,), int64, optional
        How many of them are valid; they come first. Without it everything is valid, whatever its size.
    rates : sequence of (int, int)
        Positions per token or frame in each buffer, and how many more it has; one of `room` positions by default.
    """

    def __init__(self, room: int = 0, length: Tensor | None = None, rates: Sequence[tuple[int, int]] = ()):
        self.length = length
        self._counts: dict[int, Tensor] = {}
        if length is not None:
            self._counts = {rate * room + more: rate * length + more for rate, more in rates} or {room: length}
        self._made: dict[tuple[str, int, torch.dtype], Tensor] = {}

    def inside(self, room: int) -> Tensor:
        """Return True for the valid positions of a buffer of `room` positions, shape (room,).

        Raises
        ------
        InputError
            If there is no such buffer: masking it by a guess would be wrong without a sign.
        """
        if room not in self._counts:
            known = ", ".join(map(str, self._counts))
            raise InputError(f"A buffer of {room} positions belongs to none of the rates here, which have {known}.")
        count = self._counts[room]
        return self._once("inside", room, torch.bool, lambda: torch.arange(room, device=count.device) < count)

    def mask(self, room: int, dtype: torch.dtype) -> Tensor:
        """Return 1 for the valid positions and 0 behind them, shape (room,)."""
        return self._once("mask", room, dtype, lambda: self.inside(room).to(dtype))

    def weights(self, room: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the weights of a mean over the valid positions, (1, room, 1), and their sum, (1,).

        They are a power of two, so that nothing is rounded, and light enough for sums in float16.
        """
        weights = self._once("weights", room, dtype, lambda: (self.mask(room, dtype) * LIGHT)[None, :, None])
        return weights, self._once("total", room, dtype, lambda: weights.sum(dim=(1, 2)))

    def reversal(self, room: int, dtype: torch.dtype) -> Tensor:
        """Return the matrix that turns the valid positions round and leaves zeros behind them, (1, room, room)."""

        def build() -> Tensor:
            place = torch.arange(room, device=self._counts[room].device)
            return (place[:, None] + place == self._counts[room] - 1).to(dtype)[None]

        return self._once("reversal", room, dtype, build)

    def zeroed(self, x: Tensor) -> Tensor:
        """Return `x`, of floats, with zeros behind its valid positions, whatever stood there, NaN and infinity too."""
        if self.length is None:
            return x
        room = x.shape[-1]
        hidden = torch.logical_not(self.inside(room)).reshape([1] * (x.dim() - 1) + [room])
        return x.masked_fill(hidden, 0.0)  # coremltools has no where of one number

    def _once(self, kind: str, room: int, dtype: torch.dtype, build: Callable[[], Tensor]) -> Tensor:
        key = (kind, room, dtype)
        if key not in self._made:
            self._made[key] = build()
        return self._made[key]


EVERYTHING = Valid()


def of_frames(room: int, length: Tensor | None) -> Valid:
    """Return what is valid at every rate of the decoder.

    Parameters
    ----------
    room : int
        Frames of the buffer, 40 per second.
    length : torch.Tensor, shape (1,), int64, frames
        How many of them are valid, 2 or more; None for all.
    """
    return Valid(room, length, RATES)


_given: ContextVar[Valid | None] = ContextVar("valid", default=None)


@contextmanager
def within(module: nn.Module, valid: Valid) -> Iterator[Valid]:
    """Have norms, convolutions and LSTMs in `module` read no more than `valid` says, for the calls of this thread.

    Where everything is valid, nothing is replaced.
    """
    if valid.length is None:
        yield valid
        return
    layers = [layer for layer in modules_within(module) if isinstance(layer, tuple(_STOPPING))]
    padded = {type(one): _padded(type(one)) for one in layers}  # type: ignore[arg-type]  # a class can be hashed
    with set_inside(_given, valid), other_classes(layers, padded):
        yield valid


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


class _PaddedConvolution(nn.Module):
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


@cache
def _padded(kind: type[nn.Module]) -> type[Any]:
    """Return the subclass of a layer, or of what a patch made of one, that stops at the valid part.

    Where nothing is given, as in another thread, it computes what it did before.
    """
    if issubclass(kind, tuple(_STOPPING.values())):  # as in a context within this one, or of a copy
        return kind
    stopping = next(padded for plain, padded in _STOPPING.items() if issubclass(kind, plain))
    return type(f"Padded{kind.__name__}", (stopping, kind), {})


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
    with set_inside(_valid, mask), other_classes(modules_within(module), _OPEN):
        yield


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
    from torch._higher_order_ops import scan

    into, hidden, bias, hidden_bias = layer.all_weights[direction]
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


@dataclass(frozen=True)
class Extent:
    """How long the valid part of an input or an output is along one axis: ``rate * count + extra``."""

    axis: int
    per: str
    rate: int = 1
    extra: int = 0

    def length(self, valid: Mapping[str, int]) -> int:
        """Return the length for so many valid tokens and frames."""
        return self.rate * valid[self.per] + self.extra


_SPECTRAL = (Extent(2, "frames", SAMPLES_PER_FRAME // 5, 1),)
EXTENTS: dict[str, tuple[Extent, ...]] = {
    **dict.fromkeys(("ids", "attention_mask", "encoded", "d", "pred_dur"), (Extent(1, "tokens"),)),
    **dict.fromkeys(("ref_s", "s", "speed", "length", "initial_phase"), ()),
    "t_en": (Extent(2, "tokens"),),
    "alignment": (Extent(1, "tokens"), Extent(2, "frames")),
    **dict.fromkeys(("f0", "n"), (Extent(1, "frames", 2),)),
    **dict.fromkeys(("asr", "en"), (Extent(2, "frames"),)),
    "x": (Extent(2, "frames", 2),),
    **dict.fromkeys(("har", "har_magnitude", "har_phase", "x_pre", "x_post", "spec", "phase"), _SPECTRAL),
    **dict.fromkeys(("excitation", "harmonic_noise", "audio"), (Extent(1, "frames", SAMPLES_PER_FRAME),)),
}


def widened(inputs: Mapping[str, Tensor], room: int, fill: float = 0.0) -> dict[str, Tensor]:
    """Return `inputs` with room for `room` tokens or frames.

    Parameters
    ----------
    inputs : mapping
        Inputs of a stage over tokens, or of one over frames, by name.
    room : int
        Tokens, or frames.
    fill : float
        What is put behind what there is; whole numbers where the input is.

    Raises
    ------
    InputError
        If an input is none of the stages', or is longer than there is room for.

    Examples
    --------
    >>> import torch
    >>> widened({"f0": torch.ones(1, 2), "s": torch.zeros(1, 128)}, 3)["f0"].tolist()
    [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]
    """
    wide = {}
    for name, tensor in inputs.items():
        if name not in EXTENTS:
            raise InputError(f"It is not known how the input '{name}' grows; the stages take {', '.join(EXTENTS)}.")
        for extent in EXTENTS[name]:
            missing = extent.length({"tokens": room, "frames": room}) - tensor.shape[extent.axis]
            if missing < 0:
                raise InputError(f"Input '{name}' is longer than {room} {extent.per}; give more room.")
            tensor = F.pad(tensor, (0, 0) * (tensor.dim() - 1 - extent.axis) + (0, missing), value=fill)
        wide[name] = tensor
    return wide


def part_of(inputs: Mapping[str, Tensor], start: int, frames: int) -> dict[str, Tensor]:
    """Return so many frames of the inputs of a stage over frames, from the frame `start` on.

    Examples
    --------
    >>> import torch
    >>> part_of({"f0": torch.arange(6.0)[None]}, 1, 2)["f0"].tolist()
    [[2.0, 3.0, 4.0, 5.0]]
    """
    cut = {}
    for name, tensor in inputs.items():
        for extent in EXTENTS[name]:
            tensor = tensor.narrow(extent.axis, extent.rate * start, extent.length({"frames": frames}))
        cut[name] = tensor.contiguous()
    return cut
