"""How much of each buffer is valid, at every rate, as tensors: a program of static shape reads it from its input."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

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

    def outside(self, room: int) -> Tensor:
        """Return True for what stands behind the valid positions, shape (room,)."""
        return torch.logical_not(self.inside(room))

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

    def zeroed(self, x: Tensor, axis: int = -1) -> Tensor:
        """Return `x`, of floats, with zeros behind its valid positions, whatever stood there, NaN and infinity too."""
        if self.length is None:
            return x
        room = x.shape[axis]
        shape = [room if d == axis % x.dim() else 1 for d in range(x.dim())]
        return x.masked_fill(self.outside(room).reshape(shape), 0.0)  # coremltools has no where of one number

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


def of_tokens(room: int, length: Tensor | None) -> Valid:
    """Return what is valid of buffers with room for `room` tokens, of which the first `length` are the text's."""
    return Valid(room, length)
