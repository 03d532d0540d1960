"""Buffers of static length for the pipeline: what is put into them, and how much of each is valid."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.complete import complete_inputs


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
    **dict.fromkeys(("ids", "attention_mask"), (Extent(1, "tokens"),)),
    **dict.fromkeys(("ref_s", "speed", "length", "initial_phase"), ()),
    "t_en": (Extent(2, "tokens"),),
    "encoded": (Extent(1, "tokens"),),
    "d": (Extent(1, "tokens"),),
    "pred_dur": (Extent(1, "tokens"),),
    "alignment": (Extent(1, "tokens"), Extent(2, "frames")),
    "f0": (Extent(1, "frames", 2),),
    "n": (Extent(1, "frames", 2),),
    "asr": (Extent(2, "frames"),),
    "en": (Extent(2, "frames"),),
    "s": (),
    "x": (Extent(2, "frames", 2),),
    "excitation": (Extent(1, "frames", SAMPLES_PER_FRAME),),
    "harmonic_noise": (Extent(1, "frames", SAMPLES_PER_FRAME),),
    **dict.fromkeys(("har", "har_magnitude", "har_phase", "x_pre", "x_post", "spec", "phase"), _SPECTRAL),
    "audio": (Extent(1, "frames", SAMPLES_PER_FRAME),),
}


def static_inputs(case: Case, frames: int, tokens: int | None = None) -> dict[str, Tensor]:
    """Return what the pipeline is given for an utterance, in buffers of fixed length, zeros behind what there is.

    Parameters
    ----------
    case : Case
        The utterance; its noise is used, so far as it reaches.
    frames : int
        Room for frames; a longer utterance is cut there, by the alignment.
    tokens : int, optional
        Room for tokens; as many as there are by default.

    Returns
    -------
    dict
        ``ids`` and ``attention_mask`` (1, tokens) int64, ``ref_s`` (1, 256), ``speed`` (1,), ``harmonic_noise``
        (1, 600 * frames, 9), float32.

    Raises
    ------
    InputError
        If the text has more tokens than there is room for.
    """
    given = complete_inputs(case)
    count = given["ids"].shape[1]
    tokens = count if tokens is None else tokens
    if tokens < count:
        raise InputError(f"The text has {count} tokens and there is room for {tokens}; give more room.")
    samples = frames * SAMPLES_PER_FRAME
    drawn = given["harmonic_noise"][:, :samples]
    padded = {name: nn.functional.pad(given[name], (0, tokens - count)) for name in ("ids", "attention_mask")}
    noises = nn.functional.pad(drawn, (0, 0, 0, samples - drawn.shape[1]))
    return {**padded, "ref_s": given["ref_s"], "speed": given["speed"], "harmonic_noise": noises}
