"""Numbers of few bits, imitated in float32; and which convolutions bear int8, by what each makes of its own inputs."""

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


def rounded(weight: Tensor, bits: int, group: int | None = None) -> Tensor:
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


def stepped(values: Tensor, bits: int = 8) -> Tensor:
    """Return activations in as many even steps as so many bits have, from their least, or 0, to their largest, or 0."""
    low, high = values.min().clamp(max=0.0), values.max().clamp(min=0.0)
    step = ((high - low) / (2**bits - 1)).clamp(min=torch.finfo(values.dtype).tiny)
    zero = (-low / step).round()
    return ((values / step).round() + zero).clamp(0, 2**bits - 1).sub(zero) * step


def weight_bits() -> int:
    """Return the bits that a weight can have on this processor: 7 on x86 without VNNI, else 8.

    Without VNNI the sum of two products of 8 bits each is kept in 16 and does not always fit: it is cut off without a
    sign (ONNX Runtime's documentation, "Quantize ONNX Models", on ``reduce_range``).
    """
    here = this_machine()
    return 7 if "avx2" in here.flags and not {"avx512_vnni", "avx_vnni"} & {*here.flags} else 8


@dataclass(frozen=True)
class Borne:
    """What int8 makes of one convolution.

    Attributes
    ----------
    layer : str
        Its name in the module.
    local : float
        Error of what it gives, on the inputs that it has in float32: Euclidean, as a share of it.
    alone : float
        Log-spectral distance of the audio where it alone computes in int8, dB.
    """

    layer: str
    local: float
    alone: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {"layer": self.layer, "local error (of its result)": self.local, "alone (dB)": self.alone}


def effects(module: nn.Module, inputs: Arrays) -> tuple[Borne, ...]:
    """Compute each convolution in int8, one at a time; return what that makes of it and of the audio, the least first.

    Parameters
    ----------
    module : torch.nn.Module
        Its weights folded: see the patch ``fold_weight_norm``. It returns audio, (1, samples).
    inputs : mapping
        Name -> tensor, for ``module(**inputs)``.
    """
    exact, bits, found = sound(module, inputs), weight_bits(), []
    for name, part in module.named_modules():
        if isinstance(part, nn.Conv1d):
            local: list[float] = []

            def watch(conv: nn.Conv1d, given: tuple[Tensor], result: Tensor, local: list[float] = local) -> Tensor:
                made, size = _in_int8(conv, given[0], bits), torch.linalg.vector_norm(result)
                local.append(float(torch.linalg.vector_norm(made - result) / size) if size else 0.0)
                return made

            with _hooked(module, {name: watch}):
                distance = log_spectral_distance(exact[0], sound(module, inputs)[0])
            found.append(Borne(name, local[0], distance))
    return tuple(sorted(found, key=lambda one: one.alone))


def bearing(module: nn.Module, inputs: Arrays, found: Sequence[Borne], limit: float = TRANSPARENT) -> tuple[str, ...]:
    """Return the convolutions that can be computed in int8 together, those first that cost least alone.

    As many as keep the audio within `limit`, found by bisection: each further one costs something, as a rule. A small
    local error is no reason to take one: what the last convolution gives is an exponent.

    Parameters
    ----------
    module, inputs
        See `effects`.
    found : sequence of Borne
        What `effects` returned.
    limit : float
        Log-spectral distance from float32, dB.
    """
    exact, order = sound(module, inputs), [one.layer for one in found]
    least, most = 0, len(order) + 1  # `least` is within the limit
    while least + 1 < most:
        middle = (least + most) // 2
        with in_int8(module, order[:middle]):
            distance = log_spectral_distance(exact[0], sound(module, inputs)[0])
        least, most = (middle, most) if distance <= limit else (least, middle)
    return tuple(order[:least])


@contextmanager
def in_int8(module: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Have convolutions compute as in int8, for the calls inside: what they are given, their weights, what they give.

    Weights have a scale for each output and `weight_bits`.
    """
    bits = weight_bits()
    with _hooked(module, {name: lambda conv, given, _result: _in_int8(conv, given[0], bits) for name in names}):
        yield


def sound(module: nn.Module, inputs: Arrays) -> np.ndarray:
    """Return what the module gives, as NumPy's float32."""
    with torch.no_grad():
        return np.asarray(module(**inputs).float().numpy())


def _in_int8(conv: nn.Conv1d, x: Tensor, bits: int) -> Tensor:
    return stepped(conv._conv_forward(stepped(x), rounded(conv.weight, bits), conv.bias))


@contextmanager
def _hooked(module: nn.Module, hooks: Mapping[str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, hook in hooks.items():
            stack.callback(module.get_submodule(name).register_forward_hook(hook).remove)
        yield
