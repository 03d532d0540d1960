"""mattmireles/kokoro-coreml: four Core ML programs, each in several sizes, and a source that the host computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Programs, RowRule, signature
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, HARMONICS, SAMPLE_RATE
from kokoro_nb.models.seven_stages import TEXT
from kokoro_nb.models.speaking import FEATURES

TOKENS = (32, 64, 128, 256, 320, 384, 512)
SECONDS = (3, 7, 10, 15, 30)
VOCAB, SOURCE = "runtime/kokoro-vocab.json", "runtime/hnsf_weights.json"
SEED = 42  # of the client's noise
DURATION = f"""
    input_ids int32 1 tokens, attention_mask int32 1 tokens, ref_s float32 1 256, speed float32 1
    -> pred_dur int32 1 tokens, d float32 1 tokens {FEATURES}, t_en float32 1 {TEXT} tokens, s float32 1 128,
    ref_s_out float32 1 256
"""
PITCH = f"en float32 1 {FEATURES} frames, s float32 1 128 -> F0_pred float32 1 pitches, N_pred float32 1 pitches"
TRUNK = f"""
    asr float32 1 {TEXT} frames, f0 float32 1 1 pitches, n_input float32 1 1 pitches, ref_s float32 1 256,
    mask float32 1 1 frames
    -> x_pre float32 1 channels pitches
"""
GENERATOR = """
    x_pre float32 1 channels pitches, ref_s float32 1 256, har float32 1 22 steps, mask float32 1 1 pitches
    -> waveform float32 1 samples
"""


def durations(tokens: int) -> str:
    """Return the path of the first stage with room for so many tokens."""
    return f"coreml/kokoro_duration_t{tokens}.mlpackage"


def frame_stages(seconds: int) -> tuple[str, str, str]:
    """Return the paths of the three stages over frames for so many seconds, in the order in which they run."""
    names = f"f0ntrain_t{FRAMES_PER_SECOND * seconds}", f"decoder_pre_{seconds}s", f"decoder_har_post_{seconds}s"
    pitch, trunk, generator = (f"coreml/kokoro_{name}.mlpackage" for name in names)
    return pitch, trunk, generator


def programs(channels: int | str = "channels") -> Programs:
    """Return the signatures of all sizes; `channels` are those between the last two stages, a string for any."""
    found = {durations(size): signature(DURATION, tokens=size) for size in TOKENS}
    for seconds in SECONDS:
        frames = FRAMES_PER_SECOND * seconds
        sizes = {"frames": frames, "pitches": 2 * frames, "steps": 120 * frames + 1, "samples": 600 * frames}
        stages = zip(frame_stages(seconds), (PITCH, TRUNK, GENERATOR), strict=True)
        found |= {name: signature(text, channels=channels, **sizes) for name, text in stages}
    return found


@dataclass(frozen=True)
class Room:
    """Which of the client's sizes are delivered.

    Attributes
    ----------
    tokens : int
        The sizes of the first stage up to this one.
    seconds : tuple of float
        Those of the stages over frames; all of the client's by default.

    Raises
    ------
    InputError
        If the client has no such size.
    """

    tokens: int = TOKENS[-1]
    seconds: tuple[float, ...] = SECONDS

    def __post_init__(self) -> None:
        if self.tokens not in TOKENS:
            raise InputError(f"There is no size for {self.tokens} tokens; use one of {_listed(TOKENS)}.")
        other = [size for size in self.seconds if size not in SECONDS]
        if other or not self.seconds:
            raise InputError(f"There is no size of {_listed(other) or 'no'} s; use some of {_listed(SECONDS)}.")

    @property
    def programs(self) -> tuple[str, ...]:
        """Paths of the programs in the folder."""
        first = [durations(size) for size in TOKENS if size <= self.tokens]
        rest = [name for size in SECONDS if size in self.seconds for name in frame_stages(size)]
        return (*first, *rest)


def _listed(sizes: Sequence[float]) -> str:
    return ", ".join(f"{size:g}" for size in sizes)


KOKORO_COREML = ClientContract(
    client="kokoro-coreml",
    versions="2026",
    programs=programs(),
    row=RowRule("UTF-16 units - 1, at most the last", lambda ids, symbols, rows: int(np.clip(symbols, 1, rows)) - 1),
    files=(VOCAB, SOURCE),
    max_tokens=448,
    audio=f"fades what belongs to marks into silence; the source's noise is the client's own, drawn from seed {SEED}",
    raw="no marks in the text",
    alternatives=True,
    form="Core ML",
    makes_noise=True,
)


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
    """Return `count` numbers of a normal distribution, (count,) float32: pairs, cosine before sine.

    The seed is scrambled by SplitMix64, and xorshift64 goes on from there.
    """
    state, raw = (seed + 0x9E3779B97F4A7C15) & _MASK, np.empty(count + count % 2, np.int64)
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    state = (state ^ state >> 31) or 0x9E3779B97F4A7C15
    for place in range(len(raw)):
        state ^= state << 13 & _MASK
        state ^= state >> 7
        state ^= state << 17 & _MASK
        raw[place] = state & 0xFFFFFF
    uniform = raw.astype(np.float32) / np.float32(0xFFFFFF)
    first, second = np.maximum(uniform[::2], np.finfo(np.float32).eps), uniform[1::2]
    radius, angle = np.sqrt(-2 * np.log(first)), np.float32(2 * np.pi) * second
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]
