"""What zero-padded conditioning does: how much of it is the offsets' doing, and how much the position's."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from pocket_tts import TTSModel
from torch import nn

from kokoro_nb.models.pocket.bugs import BUGS, Attempt
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class PaddingFigures:
    """The figures.

    Attributes
    ----------
    offsets : int
        Of the projections and the feed-forward layers of the package's transformer, how many have an offset.
    counted : float
        Error of the first latent, of peak, where padding advances the position.
    written : float
        Largest key or value that a zero token writes.
    counted_without, written_without : float
        The same where the offsets of the LayerNorms before them are zero.
    """

    offsets: int
    counted: float
    written: float
    counted_without: float
    written_without: float


def padding(model: TTSModel, right: Attempt) -> PaddingFigures:
    """Measure it.

    Parameters
    ----------
    right : Attempt
        In eager PyTorch, with the weights of `model`; its last call of ``conditioning`` has room to spare.
    """
    first = replace(right, utterance=replace(right.utterance, noise=right.utterance.noise[:1]))
    linear = [part for part in model.flow_lm.transformer.modules() if isinstance(part, nn.Linear)]
    with_offsets = _counted(first), _zero_token(first)
    with _no_offsets(model):
        return PaddingFigures(
            sum(part.bias is not None for part in linear), *with_offsets, _counted(first), _zero_token(first)
        )


def _counted(right: Attempt) -> float:
    return compare(right.speak().latents, BUGS["padding_counted"].apply(right).speak().latents).of_peak


def _zero_token(right: Attempt) -> float:
    token = np.zeros_like(right.embeddings[:, :1])
    made = right.steps["conditioning step"]({"embedding": token, **right.host.language})
    return float(np.abs(made["cache"]).max())


@contextmanager
def _no_offsets(model: TTSModel) -> Iterator[None]:
    """Set the offsets of the transformer's LayerNorms to zero."""
    norms = [part for part in model.flow_lm.transformer.modules() if isinstance(part, nn.LayerNorm)]
    before = [norm.bias.clone() for norm in norms]
    with torch.no_grad():
        for norm in norms:
            norm.bias.zero_()
        try:
            yield
        finally:
            for norm, offset in zip(norms, before, strict=True):
                norm.bias.copy_(offset)
