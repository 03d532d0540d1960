"""The inputs of the stages put into longer buffers."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn.functional import pad

from kokoro_nb.errors import InputError
from kokoro_nb.models.static_buffers import EXTENTS

INPUTS = (
    *("ids", "attention_mask", "encoded", "d", "en", "asr", "f0", "n", "har", "harmonic_noise"),
    *("s", "ref_s", "speed", "length", "initial_phase"),
)


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
        if name not in INPUTS:
            raise InputError(f"It is not known how the input '{name}' grows; the stages take {', '.join(INPUTS)}.")
        for extent in EXTENTS[name]:
            missing = extent.length({"tokens": room, "frames": room}) - tensor.shape[extent.axis]
            if missing < 0:
                raise InputError(f"Input '{name}' is longer than {room} tokens or frames; give more room.")
            tensor = pad(tensor, (0, 0) * (tensor.dim() - 1 - extent.axis) + (0, missing), value=fill)
        wide[name] = tensor
    return wide
