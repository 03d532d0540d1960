"""A patch that the weights decide about: `two_pass_norm` on TVM, with channels that hardly vary."""

from dataclasses import dataclass

from kokoro.model import KModel

from kokoro_nb.faults import nearly_constant
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.repair.patch_trials import PatchBench, PatchTrial

PATCH = "two_pass_norm"
LOWEST, HIGHEST = 15.0, 40.0  # mean of such channels: rounding of its square exceeds the norm's epsilon


@dataclass(frozen=True)
class NormTrials:
    """The smaller parts of the decoder with all patches, and with all but `PATCH`."""

    within: PatchTrial
    without: PatchTrial


def norm_trials(
    model: KModel, case: Case, frames: int, limit: float, channels: int, backend: str = "tvm"
) -> NormTrials:
    """Try the patches with and without `PATCH` where `channels` channels of one convolution are nearly constant.

    Parameters
    ----------
    model, case, frames, limit
        As for `repair`.
    channels : int
        How many channels of ``noise_convs[0]`` hardly vary.
    backend : str
        Key of `BACKENDS`.
    """
    with nearly_constant(model.decoder.generator.noise_convs[0], channels, lowest=LOWEST, highest=HIGHEST):
        bench = PatchBench(model, case, backend, frames, limit)
        without = bench.trial([name for name in EXPORT_PATCHES if name != PATCH])
        return NormTrials(bench.trial(EXPORT_PATCHES), without)
