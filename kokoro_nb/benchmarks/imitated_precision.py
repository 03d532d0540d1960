"""int8 and int4 imitated in float32, and which convolutions tolerate int8, by its effect on each of them alone."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.machine import this_machine
from kokoro_nb.listening.spectrum import log_spectral_distance

TRANSPARENT = 1.0  # dB of log-spectral distance (Paliwal and Atal, 1993)


def rounded_weight(weight: Tensor, bits: int, group: int | None = None) -> Tensor:
    """Return weights rounded to whole multiples of a scale, the largest of those that share it at the end of the range.

    Parameters
    ----------
    weight : torch.Tensor, shape (outputs, ...), float32
        Of a convolution or a linear layer.
    bits : int
        Of a weight; the range is symmetric, from ``1 - 2 ** (bits - 1)`` on.
    group : int, optional
        How many neighbours share a scale; by default all of an output.
    """
    rows = weight.reshape(len(weight), -1)
    count = rows.shape[1]
    size = count if group is None else min(group, count)
    groups = nn.functional.pad(rows, (0, -count % size)).reshape(len(weight), -1, size)
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny) / (2 ** (bits - 1) - 1)
    return ((groups / scale).round() * scale).reshape(len(weight), -1)[:, :count].reshape(weight.shape)


def rounded_activation(values: Tensor, bits: int = 8) -> Tensor:
    """Return activations rounded to the even steps of so many bits, from their least, or 0, to their largest, or 0."""
    low, high = values.min().clamp(max=0.0), values.max().clamp(min=0.0)
    step = ((high - low) / (2**bits - 1)).clamp(min=torch.finfo(values.dtype).tiny)
    zero = (-low / step).round()
    return ((values / step).round() + zero).clamp(0, 2**bits - 1).sub(zero) * step


def weight_bits() -> int:
    """Return the bits that a weight can have on this processor: 7 on x86 without VNNI, else 8.

    Without VNNI the sum of two products of 8 bits each is kept in 16 and does not always fit: it is cut off without a
    sign (ONNX Runtime's documentation, "Quantize ONNX Models", on ``reduce_range``).
    """
    flags = {*this_machine().flags}
    return 7 if "avx2" in flags and not {"avx512_vnni", "avx_vnni"} & flags else 8


@dataclass(frozen=True)
class LayerEffect:
    """Effect of int8 on one convolution.

    Attributes
    ----------
    layer : str
        Its name in the module.
    local_error : float
        Error of its output, on the inputs that it has in float32: Euclidean, as a share of the output.
    distance : float
        Log-spectral distance of the audio from float32 where it alone computes in int8, dB.
    """

    layer: str
    local_error: float
    distance: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {"layer": self.layer, "local error (of its output)": self.local_error, "alone (dB)": self.distance}


def int8_effects(module: nn.Module, inputs: Arrays) -> tuple[LayerEffect, ...]:
    """Compute each convolution in int8, one at a time; return the effect on it and on the audio, the smallest first.

    Parameters
    ----------
    module : torch.nn.Module
        Its weights folded: see the patch ``fold_weight_norm``. It returns audio, (1, samples).
    inputs : mapping
        Name -> tensor, for ``module(**inputs)``.
    """
    exact, bits, found = audio_of(module, inputs), weight_bits(), []
    for name, part in module.named_modules():
        if isinstance(part, nn.Conv1d):
            local: list[float] = []

            def watch(conv: nn.Conv1d, x: tuple[Tensor], result: Tensor, local: list[float] = local) -> Tensor:
                made, size = _in_int8(conv, x[0], bits), torch.linalg.vector_norm(result)
                local.append(float(torch.linalg.vector_norm(made - result) / size) if size else 0.0)
                return made

            with _hooked(module, {name: watch}):
                distance = log_spectral_distance(exact[0], audio_of(module, inputs)[0])
            found.append(LayerEffect(name, local[0], distance))
    return tuple(sorted(found, key=lambda one: one.distance))


def tolerant_layers(
    module: nn.Module, inputs: Arrays, found: Sequence[LayerEffect], limit: float = TRANSPARENT
) -> tuple[str, ...]:
    """Return the convolutions that can be computed in int8 together, those first whose effect alone is smallest.

    As many as keep the audio within `limit`, found by bisection: each further one costs something, as a rule. A small
    local error is no reason to take one: the last convolution's output is an exponent.

    Parameters
    ----------
    module, inputs
        See `int8_effects`.
    found : sequence of LayerEffect
        From `int8_effects`.
    limit : float
        Log-spectral distance from float32, dB.
    """
    exact, order = audio_of(module, inputs), [one.layer for one in found]
    least, most = 0, len(order) + 1  # `least` is within the limit
    while least + 1 < most:
        middle = (least + most) // 2
        with in_int8(module, order[:middle]):
            distance = log_spectral_distance(exact[0], audio_of(module, inputs)[0])
        least, most = (middle, most) if distance <= limit else (least, middle)
    return tuple(order[:least])


@contextmanager
def in_int8(module: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Have convolutions compute as in int8, for the calls inside: inputs, weights and outputs.

    Weights have a scale for each output and `weight_bits`.
    """
    bits = weight_bits()
    with _hooked(module, {name: lambda conv, x, _result: _in_int8(conv, x[0], bits) for name in names}):
        yield


def audio_of(module: nn.Module, inputs: Arrays) -> np.ndarray:
    """Return the output of the module, (1, samples), as NumPy's float32."""
    with torch.no_grad():
        return np.asarray(module(**inputs).float().numpy())


def _in_int8(conv: nn.Conv1d, x: Tensor, bits: int) -> Tensor:
    return rounded_activation(conv._conv_forward(rounded_activation(x), rounded_weight(conv.weight, bits), conv.bias))


@contextmanager
def _hooked(module: nn.Module, hooks: Mapping[str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, hook in hooks.items():
            stack.callback(module.get_submodule(name).register_forward_hook(hook).remove)
        yield
