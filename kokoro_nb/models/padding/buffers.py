"""The inputs of the stages put into longer buffers."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn.functional import pad

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

# name of an input -> axis that grows with the buffer, positions per token or frame, and how many there are on top
GROWTH: dict[str, tuple[int, int, int]] = {
    "ids": (1, 1, 0),
    "attention_mask": (1, 1, 0),
    "encoded": (1, 1, 0),
    "d": (1, 1, 0),
    "en": (2, 1, 0),
    "asr": (2, 1, 0),
    "f0": (1, 2, 0),
    "n": (1, 2, 0),
    "har": (2, SAMPLES_PER_FRAME // 5, 1),
    "harmonic_noise": (1, SAMPLES_PER_FRAME, 0),
}
CONSTANT = ("s", "ref_s", "speed", "length", "initial_phase")


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
        if name in CONSTANT:
            wide[name] = tensor
            continue
        if name not in GROWTH:
            raise InputError(f"It is not known how the input '{name}' grows; the stages take {', '.join(GROWTH)}.")
        axis, rate, more = GROWTH[name]
        missing = rate * room + more - tensor.shape[axis]
        if missing < 0:
            raise InputError(f"Input '{name}' is longer than {room} tokens or frames; give more room.")
        wide[name] = pad(tensor, (0, 0) * (tensor.dim() - 1 - axis) + (0, missing), value=fill)
    return wide
