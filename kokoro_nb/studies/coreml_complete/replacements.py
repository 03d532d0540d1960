"""Class by class: what an export of the complete model computes in place of the package's own code, and how near."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.models import model_cuts, noise, stages
from kokoro_nb.models.architecture import STYLE, build, full_config
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class Replacement:
    """One class and what stands for it.

    Attributes
    ----------
    name : str
        The package's class, and the attribute of the model that holds it.
    reason : str
        What exporters do not take.
    parameters : int
        Of the class; those of the replacement are the same tensors.
    shape : tuple of int
        Of the first result.
    error : float
        Largest difference of any result to the package's own, of its peak.
    cost : float
        Time of the replacement over the package's own, each the fastest of some calls in turn, eager.
    """

    name: str
    reason: str
    parameters: int
    shape: tuple[int, ...]
    error: float
    cost: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "class": self.name,
            "why": self.reason,
            "parameters": self.parameters,
            "first result": "x".join(map(str, self.shape)),
            "error (of peak)": self.error,
            "time / original's": self.cost,
        }


@dataclass(frozen=True)
class ReplacedClasses:
    """All replacements, and how many millions of parameters the published architecture has."""

    replacements: tuple[Replacement, ...]
    published_millions: float

    @property
    def error(self) -> float:
        """The largest error of a replacement, of the peak."""
        return float(np.max([one.error for one in self.replacements]))


def replaced_classes(kokoro: Kokoro, case: Case) -> ReplacedClasses:
    """Measure every replacement on `case`, and count the parameters of the published architecture."""
    measured = replacements(kokoro.model, case)
    return ReplacedClasses(measured, sum(one.numel() for one in build(full_config()).parameters()) / 1e6)


# `ramped_phase` rounds the phase otherwise, which `01_patching` measures
SAME_PHASE = tuple(name for name in EXPORT_PATCHES if name != "ramped_phase")
Results = tuple[Tensor, ...]
Pair = tuple[str, str, nn.Module | None, Callable[[], Results], Callable[[], Results]]


def replacements(model: KModel, case: Case, calls: int = 3) -> tuple[Replacement, ...]:
    """Run each class of the package and its replacement on what the package's own run gave it.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        An utterance of it.
    calls : int
        Calls of each, in turn.
    """
    return (
        *(_compared(*pair, model, (), calls) for pair in _text(model, case)),
        *(_compared(*pair, model, SAME_PHASE, calls) for pair in _audio(model, case)),
    )


def _text(model: KModel, case: Case) -> Iterator[Pair]:
    """Yield what runs over tokens."""
    ids, style = case.tensors["ids"], case.tensors["ref_s"][:, STYLE:]
    count, mask, speed = (
        torch.tensor([ids.shape[1]]),
        torch.ones_like(ids, dtype=torch.bool),
        torch.tensor([case.speed]),
    )
    padding, predictor, packed = ~mask, model.predictor, "packed sequences, whose lengths are data"
    with torch.no_grad():
        encoded = model.bert_encoder(model.bert(ids, attention_mask=mask.int()))
        d = predictor.text_encoder(encoded.transpose(1, 2), style, count, padding)
        lasting = model_cuts.durations(predictor, d, speed, padding)
    yield (
        *("CustomAlbert (bert)", "transformers derives its mask with new_ones from the data", model.bert),
        lambda: (model.bert(ids, attention_mask=mask.int()),),
        lambda: (model_cuts.contextual(model.bert, ids, mask),),
    )
    yield (
        *("TextEncoder (text_encoder)", packed, model.text_encoder),
        lambda: (model.text_encoder(ids, count, padding),),
        lambda: (model_cuts.text_features(model.text_encoder, ids, padding),),
    )
    yield (
        *("DurationEncoder (predictor.text_encoder)", packed, predictor.text_encoder),
        lambda: (predictor.text_encoder(encoded.transpose(1, 2), style, count, padding),),
        lambda: (model_cuts.duration_features(predictor.text_encoder, encoded, style, padding),),
    )
    yield (
        *("KModel.forward_with_tokens: durations", "squeeze, and durations for padding too", predictor.duration_proj),
        lambda: (_durations(predictor, d, speed),),
        lambda: (model_cuts.durations(predictor, d, speed, padding),),
    )
    frames = int(lasting.sum())
    yield (
        *("KModel.forward_with_tokens: alignment", "repeat_interleave and a write by index: shapes from data", None),
        lambda: (_alignment(lasting, frames),),
        lambda: (model_cuts.alignment(lasting, frames).float(),),
    )


def _durations(predictor: Any, d: Tensor, speed: Tensor) -> Tensor:
    """Return what `KModel.forward_with_tokens` computes."""
    return (
        torch.round(torch.sigmoid(predictor.duration_proj(predictor.lstm(d)[0])).sum(dim=-1) / speed)
        .clamp(min=1)
        .long()
    )


def _alignment(lasting: Tensor, frames: int) -> Tensor:
    """Return what `KModel.forward_with_tokens` computes."""
    indices = torch.repeat_interleave(torch.arange(lasting.shape[1]), lasting[0])
    matrix = torch.zeros(1, lasting.shape[1], frames)
    matrix[0, indices, torch.arange(frames)] = 1
    return matrix


def _audio(model: KModel, case: Case) -> Iterator[Pair]:
    """Yield what runs over frames; the replacements are the package's own names under the patches of an export."""
    decoder, generator, inputs, drawn = model.decoder, model.decoder.generator, case.decoder_inputs(), case.noise()
    source = stages.ExcitationStep(decoder.generator)
    with torch.no_grad(), noise.replayed(drawn):
        signal = model_cuts.excitation(generator, inputs["f0"])
        magnitude, phase = generator.stft.transform(signal)

    def spoken() -> Results:
        with noise.replayed(drawn):
            return (model_cuts.excitation(generator, inputs["f0"]),)

    yield (
        *("SourceModuleHnNSF (decoder.generator.m_source)", "random draws inside, float modulo", generator.m_source),
        spoken,
        lambda: (source(inputs["f0"], inputs["harmonic_noise"]),),
    )
    yield (
        *("TorchSTFT.transform (decoder.generator.stft)", "complex numbers", generator.stft),
        lambda: _parts(*generator.stft.transform(signal)),
        lambda: _parts(*generator.stft.transform(signal)),
    )
    yield (
        *("TorchSTFT.inverse (decoder.generator.stft)", "complex numbers", generator.stft),
        lambda: (generator.stft.inverse(magnitude, phase),),
        lambda: (generator.stft.inverse(magnitude, phase),),
    )


def _parts(magnitude: Tensor, phase: Tensor) -> Results:
    """Return real and imaginary part: a phase counts by how much there is of it, and pi is -pi."""
    return magnitude * torch.cos(phase), magnitude * torch.sin(phase)


def _compared(
    name: str,
    reason: str,
    module: nn.Module | None,
    original: Callable[[], Results],
    replacement: Callable[[], Results],
    model: KModel,
    patches: Sequence[str],
    calls: int,
) -> Replacement:
    seconds: tuple[list[float], list[float]] = ([], [])
    with torch.no_grad():
        for _ in range(calls):
            expected = _timed(original, seconds[0])
            with patched(model, patches):
                found = _timed(replacement, seconds[1])
    pairs = zip(expected, found, strict=True)
    error = float(np.max([compare(one.double(), other.double()).of_peak for one, other in pairs]))
    count = sum(parameter.numel() for parameter in module.parameters()) if module else 0
    return Replacement(name, reason, count, tuple(expected[0].shape), error, min(seconds[1]) / min(seconds[0]))


def _timed(call: Callable[[], Results], seconds: list[float]) -> Results:
    begin = time.perf_counter()
    results = call()
    seconds.append(time.perf_counter() - begin)
    return results
