"""The harmonic source as the host of kokoro-coreml computes it: phases in float64, noise out of its own generator.

Beside PyTorch's it differs in its noise (xorshift64, seeded by SplitMix64's finaliser, made normal by Box and Muller's
method) and at the two ends of its transform, where it repeats a sample and `torch.stft` reflects.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from kokoro_nb.models.architecture import HARMONICS, SAMPLE_RATE

BLOCK = 300  # samples of one value of the pitch
LEVEL, VOICED, UNVOICED, THRESHOLD = 0.1, 0.003, 0.1 / 3, 10.0  # of a sine; of the noise with and without pitch; Hz
SIZE, HOP = 20, 5
_MASK = (1 << 64) - 1


def hosted_har(f0: np.ndarray, weights: Sequence[float], bias: float, seed: int) -> np.ndarray:
    """Return magnitude and phase (radians) of the source.

    Parameters
    ----------
    f0 : numpy.ndarray, shape (2 * frames,), Hz
    weights : sequence of 9 float
        By which the harmonics are added up.
    bias : float
    seed : int
        Of the noise.

    Returns
    -------
    numpy.ndarray, shape (1, 22, 120 * frames + 1), float32
    """
    pitch, samples = np.asarray(f0, np.float64), BLOCK * len(f0)
    turns = np.cumsum(np.mod(pitch * np.arange(1, HARMONICS + 1)[:, None] / SAMPLE_RATE, 1.0), axis=1)
    place = np.clip((np.arange(samples) + 0.5) / BLOCK - 0.5, 0, len(pitch) - 1)
    phases = np.stack([np.interp(place, np.arange(len(pitch)), one) for one in turns * 2 * np.pi * BLOCK])
    voiced = np.repeat(pitch > THRESHOLD, BLOCK)
    sines = np.sin(phases).astype(np.float32) * np.float32(LEVEL) * voiced
    drawn = normal_noise(HARMONICS * samples, seed).reshape(HARMONICS, samples)
    mixed = sines + drawn * np.where(voiced, VOICED, UNVOICED).astype(np.float32)
    signal = np.tanh(np.asarray(weights, np.float32) @ mixed + np.float32(bias))
    padded = np.pad(signal, SIZE // 2, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, SIZE)[::HOP]
    spectrum = np.fft.rfft(windows * np.hanning(SIZE + 1)[:-1], axis=1).T
    spectrum.imag[[0, -1]] = 0.0  # of a real signal, and of either sign where it is computed
    magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-14)
    return np.concatenate([magnitude, np.angle(spectrum)])[None].astype(np.float32)


@lru_cache(maxsize=4)
def normal_noise(count: int, seed: int) -> np.ndarray:
    """Return `count` numbers of a normal distribution, (count,) float32: pairs, cosine before sine."""
    state, raw = _scrambled(seed), np.empty(count + count % 2, np.int64)
    for place in range(len(raw)):
        state ^= state << 13 & _MASK
        state ^= state >> 7
        state ^= state << 17 & _MASK
        raw[place] = state & 0xFFFFFF
    uniform = raw.astype(np.float32) / np.float32(0xFFFFFF)
    first, second = np.maximum(uniform[::2], np.finfo(np.float32).eps), uniform[1::2]
    radius, angle = np.sqrt(-2 * np.log(first)), np.float32(2 * np.pi) * second
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]


def _scrambled(seed: int) -> int:
    state = (seed + 0x9E3779B97F4A7C15) & _MASK
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    return (state ^ state >> 31) or 0x9E3779B97F4A7C15
