"""The programs behind the durations, with inputs to export them for: pitch and energy, the source, the decoder."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.models.architecture import HARMONICS, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.stages import DecoderStage, FromHarStage, ProsodyStage, SourceStage

Stage = tuple[str, nn.Module, dict[str, Tensor]]  # name, module, example inputs in the order of its forward


def second_stage(model: Any, at_har: bool, frames: int, **length: Tensor) -> Iterator[Stage]:
    """Yield each program for so many frames.

    Parameters
    ----------
    model : kokoro.model.KModel
    at_har : bool
        Begin the decoder at `har`, with the source in a program of its own.
    frames : int
    **length : torch.Tensor
        ``length``, shape (1,), int64, where the frames are room for fewer.
    """
    hidden, ref_s = model.predictor.text_encoder.d_model, torch.zeros(1, 2 * STYLE)
    yield "prosody", ProsodyStage(model), {"en": torch.zeros(1, hidden + STYLE, frames), "ref_s": ref_s, **length}
    curves = {name: torch.zeros(1, 2 * frames) for name in ("f0", "n")}
    given = {"asr": torch.zeros(1, hidden, frames), **curves, "s": torch.zeros(1, STYLE)}
    noise = {"harmonic_noise": torch.zeros(1, frames * SAMPLES_PER_FRAME, HARMONICS)}
    if at_har:
        source, pitch = SourceStage(model.decoder), {"f0": curves["f0"], **noise, **length}
        yield "source", source, pitch
        with torch.no_grad(), patched(model, EXPORT_PATCHES):
            har = source(**pitch)
        yield "decoder", FromHarStage(model.decoder), {**given, "har": har, **length}
    else:
        yield "decoder", DecoderStage(model.decoder), {**given, **noise, **length}
