"""What was replayed: which module, with which patches, on which backend, and after what it was called again."""

from dataclasses import dataclass

# what a program was called with between its first call and the two later ones; nothing for the first of these
SEQUENCES = ("itself", "zeros", "a constant", "NaN in every float")
AS_IT_IS = ("explicit_noise", "custom_stft")  # without these two there is no export at all
DECODER, BLOCKS, INVERSE, ALONE = "decoder from har", "the five blocks", "stft inverse", "InstanceNorm1d"
XNNPACK, PORTABLE = "executorch-xnnpack", "executorch-portable"


@dataclass(frozen=True)
class ReplayTrial:
    """One module, exported once; then loaded afresh for each of `SEQUENCES`, and called.

    Attributes
    ----------
    cut : str
        ``decoder from har``; ``the five blocks``, which is the decoder up to its generator; ``stft inverse``;
        ``InstanceNorm1d``, on numbers of its own; or the path of a module of the decoder ahead of its generator.
    """

    name: str
    cut: str
    backend: str = XNNPACK
    patches: tuple[str, ...] = AS_IT_IS


NORM = ReplayTrial("InstanceNorm1d alone", ALONE, PORTABLE, ())
BLOCK = "encode"
PIECES = tuple(
    ReplayTrial(path, path) for path in ("asr_res", f"{BLOCK}.norm1.fc", f"{BLOCK}.norm1.norm", f"{BLOCK}.norm1")
)
SYMPTOM = ReplayTrial("XNNPACK as it is", BLOCK)
MENDED = ReplayTrial("XNNPACK, norm written out", BLOCK, XNNPACK, (*AS_IT_IS, "two_pass_norm"))
CONTROLS = (
    SYMPTOM,
    ReplayTrial("XNNPACK, weight_norm folded", BLOCK, XNNPACK, (*AS_IT_IS, "fold_weight_norm")),
    MENDED,
    ReplayTrial("portable as it is", BLOCK, PORTABLE),
    ReplayTrial("portable, norm written out", BLOCK, PORTABLE, (*AS_IT_IS, "two_pass_norm")),
)
LAYOUT = (
    ReplayTrial("portable as it is", INVERSE, PORTABLE),
    ReplayTrial("portable, contiguous", INVERSE, PORTABLE, (*AS_IT_IS, "contiguous_istft")),
    ReplayTrial("XNNPACK as it is", INVERSE, XNNPACK),
)
LARGE = (
    ReplayTrial("five blocks as they are", BLOCKS),
    ReplayTrial("five blocks, norm written out", BLOCKS, XNNPACK, (*AS_IT_IS, "two_pass_norm")),
    ReplayTrial("decoder from har as it is", DECODER),
    ReplayTrial("decoder from har, both patches", DECODER, XNNPACK, (*AS_IT_IS, "two_pass_norm", "contiguous_istft")),
)
