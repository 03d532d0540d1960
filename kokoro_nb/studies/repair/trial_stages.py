"""The stages on which a set of patches is tried, with what the model without patches makes of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.ladder import Outputs, climb
from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, stages
from kokoro_nb.models.case import Case
from kokoro_nb.traces.statistics import largest_error

LARGEST = ("decoder from har", "whole decoder")


Make = Callable[[KModel], nn.Module]


@dataclass(frozen=True)
class TrialStage:
    """One part of the decoder that every trial exports.

    Attributes
    ----------
    make : callable
        Makes it from the patched model.
    inputs : mapping
        Name -> tensor, from the model without patches.
    expected : mapping
        Outputs of the model without patches, float64.
    floor : float or None
        The same in eager float32, error as a share of the peak; None where the numbers are not compared.
    read : callable
        Brings outputs into the form in which they are compared.
    confirming : bool
        Whether it is left for the sets that work in all smaller parts, because it takes longest.
    """

    name: str
    make: Make
    inputs: Mapping[str, Tensor]
    expected: Outputs
    floor: float | None
    read: Callable[[Outputs], Outputs]
    confirming: bool = False


def trial_stages(model: KModel, case: Case, frames: int) -> tuple[TrialStage, ...]:
    """Return the stages of an utterance, the smaller parts before the largest."""
    found = []
    with _replayed(case.noise(frames)):
        for name, (make, given) in _parts(model, case.decoder_inputs(frames)).items():
            read = _complex if name == "transform" else _as_is
            exact, single = (climb(backend(b), make(model), given, calls=1) for b in ("eager-float64", "eager"))
            if exact.outputs is None or single.outputs is None:
                raise InputError(f"The model without patches does not run in eager: {exact.failure or single.failure}")
            floor = None if name == "whole decoder" else largest_error(read(exact.outputs), read(single.outputs))
            found.append(TrialStage(name, make, given, exact.outputs, floor, read, name in LARGEST))
    return tuple(found)


def _parts(model: KModel, inputs: Mapping[str, Tensor]) -> dict[str, tuple[Make, dict[str, Tensor]]]:
    """Return how to make each stage of the patched model, and its inputs from the model without patches."""
    generator = model.decoder.generator
    cut = {name: given for name, (_, given) in stages.parts(model.decoder, inputs).items()}
    har = cut["generator"]["har"]
    source = {name: inputs[name] for name in ("f0", "harmonic_noise")}
    branch = {"x": generator.noise_convs[0](har), "s": inputs["s"]}
    from_har = {**{name: inputs[name] for name in ("asr", "f0", "n", "s")}, "har": har}
    return {
        "excitation": (lambda m: stages.ExcitationStep(m.decoder.generator), source),
        "transform": (lambda m: stages.TransformStep(m.decoder.generator), cut["stft forward"]),
        "inverse": (lambda m: stages.WaveformStep(m.decoder.generator), cut["stft inverse"]),
        "decoder block": (lambda m: m.decoder.encode, cut["encode"]),
        "generator block": (lambda m: m.decoder.generator.noise_res[0], branch),
        "decoder from har": (lambda m: stages.FromHarStage(m.decoder), from_har),
        "whole decoder": (lambda m: stages.DecoderStage(m.decoder), dict(inputs)),
    }


@contextmanager
def _replayed(drawn: noise.Noise) -> Iterator[None]:
    """Run the model without patches on the noise of the case, without gradients."""
    import torch

    with torch.no_grad(), noise.replayed(drawn), noise.explicit(drawn):
        yield


def _as_is(outputs: Outputs) -> Outputs:
    return outputs


def _complex(outputs: Outputs) -> Outputs:
    """Magnitude and phase to real and imaginary part: a flip of the phase where there is no magnitude is no error."""
    magnitude, phase = (outputs[name].astype(np.float64) for name in ("har_magnitude", "har_phase"))
    return {"real": magnitude * np.cos(phase), "imaginary": magnitude * np.sin(phase)}
