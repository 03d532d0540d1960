"""A captured utterance decoded by the model in eager PyTorch, with any patches, on the noise of the case."""

from collections.abc import Sequence

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.models import noise
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import patched


def decode(
    model: KModel, case: Case, names: Sequence[str] = (), frames: int | None = None, drawn: noise.Noise | None = None
) -> np.ndarray:
    """Decode `case` with the patches `names` on, on the noise of the case, however the model asks for it.

    Parameters
    ----------
    model : kokoro.model.KModel
        The model that the case was captured from.
    case : Case
        Gives the decoder's inputs.
    names : sequence of str
        Keys of `PATCHES`.
    frames : int, optional
        Only the first so many frames.
    drawn : noise.Noise, optional
        Other noise of the same length.

    Returns
    -------
    numpy.ndarray, shape (600 * frames,), float32
        Audio at 24 kHz.
    """
    inputs, drawn = case.decoder_inputs(frames), drawn or case.noise(frames)
    with torch.no_grad(), patched(model, names), noise.replayed(drawn), noise.explicit(drawn):
        audio = model.decoder(*(inputs[name] for name in ("asr", "f0", "n", "s")))
    return audio.reshape(-1).numpy()
