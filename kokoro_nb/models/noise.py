"""The source's noise as data: drawn once, given to every runtime.

Kokoro draws noise at three places: the initial phase of the harmonics, the noise of each harmonic, and the noise branch
of the source module. Two runs can be compared only when these are the same on both sides.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch.overrides import TorchFunctionMode

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import HARMONICS, SAMPLE_RATE, SAMPLES_PER_FRAME

NoiseKind = Literal["gaussian", "zero", "tonal"]


@dataclass(frozen=True)
class Noise:
    """One draw at all three sites.

    Attributes
    ----------
    initial_phase : torch.Tensor, shape (1, 9), float32, cycles
        ``rand_ini`` of `SineGen._f02sine`. It never reaches the audio: the down-sampling by 300 that follows does not
        read the first sample, the only one it is added to.
    harmonic : torch.Tensor, shape (1, samples, 9), float32, standard deviations
        The draw of `SineGen.forward`, the one that is heard.
    branch : torch.Tensor, shape (1, samples, 1), float32, standard deviations
        The draw of `SourceModuleHnNSF.forward`, whose result the generator discards.
    """

    initial_phase: torch.Tensor
    harmonic: torch.Tensor
    branch: torch.Tensor


def draw(frames: int, seed: int, kind: NoiseKind = "gaussian") -> Noise:
    """Draw the noise for `frames` frames (40 per second).

    Parameters
    ----------
    frames : int
        Length of `asr`.
    seed : int
        Seed of the Gaussian draw and of the initial phase.
    kind : {"gaussian", "zero", "tonal"}
        ``gaussian`` is what the model draws. ``zero`` and ``tonal``, ``sin(137 t) cos(211 t)`` of the time t in
        seconds, are deterministic stand-ins that were tried in ports.

    Raises
    ------
    InputError
        If `kind` is none of these.
    """
    if kind not in get_args(NoiseKind):
        raise InputError(f"There is no noise '{kind}'; use one of {', '.join(get_args(NoiseKind))}.")
    samples = frames * SAMPLES_PER_FRAME
    source = torch.Generator().manual_seed(seed)
    phase = torch.rand(1, HARMONICS, generator=source)
    harmonic = torch.randn(1, samples, HARMONICS, generator=source)
    branch = torch.randn(1, samples, 1, generator=source)
    if kind == "zero":
        harmonic = torch.zeros_like(harmonic)
    elif kind == "tonal":
        time = torch.arange(samples, dtype=torch.float64)[None, :, None] / SAMPLE_RATE
        harmonic = (torch.sin(137 * time) * torch.cos(211 * time)).float().expand_as(harmonic).contiguous()
    return Noise(phase, harmonic, branch)


def of_harmonics(harmonic: torch.Tensor, initial_phase: torch.Tensor | None = None) -> Noise:
    """Complete the noise of the harmonics, (1, samples, 9), with zeros at the sites that never reach the audio."""
    if initial_phase is None:
        initial_phase = torch.zeros(1, harmonic.shape[2], dtype=harmonic.dtype)
    return Noise(initial_phase, harmonic, torch.zeros_like(harmonic[..., :1]))


def bank(seed: int, samples: int) -> torch.Tensor:
    """Draw the noise of the harmonics for `samples` samples, (samples, 9), to be read cyclically."""
    return torch.randn(samples, HARMONICS, generator=torch.Generator().manual_seed(seed))


def cyclic(bank: torch.Tensor, samples: int) -> torch.Tensor:
    """Return as much noise as is needed out of a bank: (1, samples, 9)."""
    return bank[torch.arange(samples) % bank.shape[0]][None]


class replayed(TorchFunctionMode):  # in lower case, as it is used in the place of a function
    """Run the unpatched model on `noise`: its draws are answered from there, its code stays as it is.

    The attribute `noise` may be set later, when the number of frames is known; until then the model draws its own.

    Raises
    ------
    InputError
        Inside, if the model asks for another number of samples than were drawn.
    """

    def __init__(self, noise: Noise | None = None) -> None:
        super().__init__()
        self.noise = noise

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer `torch.rand` and `torch.randn_like`."""
        if self.noise is None or func not in (torch.rand, torch.randn_like):
            return func(*args, **(kwargs or {}))
        if func is torch.rand:
            return self.noise.initial_phase.clone()
        given = self.noise.harmonic if args[0].shape[-1] == HARMONICS else self.noise.branch
        if given.shape != args[0].shape:
            asked = f"{given.shape[1]} samples, the model asks for {args[0].shape[1]}"
            raise InputError(f"The noise was drawn for {asked}; draw it for as many frames as `asr` has.")
        return given.to(args[0].dtype)


_given: ContextVar[Noise | None] = ContextVar("noise", default=None)


@contextmanager
def set_inside(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Have a variable of this thread hold `value` inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def explicit(noise: Noise) -> AbstractContextManager[None]:
    """Give `noise` to the model patched with ``explicit_noise``, for the calls inside."""
    return set_inside(_given, noise)


def given() -> Noise:
    """Return the noise that `explicit` gave; for the patched source.

    Raises
    ------
    RuntimeError
        If none was given.
    """
    noise = _given.get()
    if noise is None:
        raise RuntimeError("The patch 'explicit_noise' is on and no noise was given: call inside noise.explicit(...).")
    return noise
