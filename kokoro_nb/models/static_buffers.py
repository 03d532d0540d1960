"""Buffers of static length for the pipeline: what is put into them, and how much of each is valid."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import pad

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME


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
            tensor = pad(tensor, (0, 0) * (tensor.dim() - 1 - extent.axis) + (0, missing), value=fill)
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
