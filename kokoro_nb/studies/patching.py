"""01: what has to change before Kokoro can be exported, and what each change costs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.listening.spectrum import spectral_flatness
from kokoro_nb.models import stages
from kokoro_nb.models.case import decode
from kokoro_nb.models.noise import draw
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.studies.decoder import decoder_part
from kokoro_nb.traces.statistics import Parity, describe


@dataclass(frozen=True)
class PatchEffects:
    """What each patch changes, by its name; for a figure."""

    changes: Mapping[str, Parity]


def added_noise(model: KModel, inputs: Mapping[str, torch.Tensor]) -> np.ndarray:
    """Return the noise of the fundamental as the patched source adds it, scaled by voicing.

    Parameters
    ----------
    model : kokoro.model.KModel
        Patched with ``explicit_noise`` or ``signal_noise``.
    inputs : mapping
        Inputs of `stages.DecoderStage`, by name.

    Returns
    -------
    numpy.ndarray, shape (600 * frames,), float32
        24 kHz, full scale 1.
    """
    seen: list[np.ndarray] = []
    sines = model.decoder.generator.m_source.l_sin_gen
    with sines.register_forward_hook(lambda _module, _args, output: seen.append(output[2][0, :, 0].numpy())):
        stages.SourceStage(model.decoder)(inputs["f0"], inputs["harmonic_noise"])
    return seen[0]
