"""What a probe says, number by number: see `probe`."""

import torch
from torch import Tensor

from kokoro_nb.models.architecture import SAMPLE_RATE

HOLD = 600  # samples of one number, which is a frame
SILENCE = SAMPLE_RATE // 2  # samples of each of the three silences
FLOOR, RANGE = 0.1, 0.4  # level of the number 0, and how much more 1 has
WHOLE = 1024.0  # ids and rows are divided by it
FASTEST = 8.0  # speeds are divided by it
LAYOUT = 777  # stands in the last column of every row
PADDING = 1023  # stands for a token that a mask hides
BEGIN, END = (1.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 1.0)
QUIET = SILENCE // HOLD  # frames of a silence
REST = 3 * QUIET + len(BEGIN) + len(END) + 5  # frames beside one for each token


def levels(numbers: Tensor) -> Tensor:
    """Return numbers of 0 to 1 as levels of alternating sign, (numbers,)."""
    side = 1.0 - 2.0 * (torch.arange(numbers.shape[0]) % 2).to(numbers.dtype)
    return (numbers * RANGE + FLOOR) * side


def spoken_frames(ids: Tensor, about: Tensor, frames: int | Tensor) -> Tensor:
    """Return the level of each frame, (room,), for programs that know no tokens any more.

    Parameters
    ----------
    ids : torch.Tensor, shape (room,)
        The id that each frame belongs to, of which the first lasts `REST` frames more than one.
    about : torch.Tensor, shape (4,)
        Row, voice and layout, then the speed.
    frames : int or torch.Tensor of one number
        How many are valid.
    """
    place, ahead = torch.arange(ids.shape[0]), len(BEGIN) + 1
    tokens, front = frames - REST, place - QUIET
    shifted = ids[(place + REST - QUIET - ahead).clamp(0, ids.shape[0] - 1)]
    among = torch.logical_and(front >= ahead, front < ahead + tokens).to(ids.dtype)
    count = (among * (shifted != PADDING).to(ids.dtype)).sum().reshape(1)
    head = torch.cat([torch.tensor(BEGIN), count / WHOLE])
    last = torch.cat([about[:3] / WHOLE, about[3:] / FASTEST, torch.tensor(END)])
    back = front - (ahead + tokens + QUIET)
    heading = torch.logical_and(front >= 0, front < ahead).to(ids.dtype)
    lasting = torch.logical_and(back >= 0, back < last.shape[0]).to(ids.dtype)
    number = head[front.clamp(0, ahead - 1)] * heading + shifted / WHOLE * among
    number = number + last[back.clamp(0, last.shape[0] - 1)] * lasting
    index = torch.where(back >= 0, back, front).to(ids.dtype)
    side = 1.0 - 2.0 * (index - 2.0 * torch.floor(index / 2.0))
    return (number * RANGE + FLOOR) * side * (heading + among + lasting)
