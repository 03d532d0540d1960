"""mattmireles/kokoro-coreml: four Core ML programs, each in several sizes, and a source that the host computes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Programs, RowRule, TensorRule, VoicesRule
from kokoro_nb.errors import InputError
from kokoro_nb.models.seven_stages import TEXT
from kokoro_nb.models.speaking import FEATURES

TOKENS = (32, 64, 128, 256, 320, 384, 512)
SECONDS = (3, 7, 10, 15, 30)
FRAMES = 40  # a second
VOCAB, SOURCE = "runtime/kokoro-vocab.json", "runtime/hnsf_weights.json"
SEED = 42  # of the client's noise


def durations(tokens: int) -> str:
    """Return the path of the first stage with room for so many tokens."""
    return f"coreml/kokoro_duration_t{tokens}.mlpackage"


def frame_stages(seconds: int) -> tuple[str, str, str]:
    """Return the paths of the three stages over frames for so many seconds, in the order in which they run."""
    names = f"f0ntrain_t{FRAMES * seconds}", f"decoder_pre_{seconds}s", f"decoder_har_post_{seconds}s"
    pitch, trunk, generator = (f"coreml/kokoro_{name}.mlpackage" for name in names)
    return pitch, trunk, generator


def programs(channels: int | str = "channels") -> Programs:
    """Return the signatures of all sizes; `channels` are those between the last two stages, a string for any."""
    style, speed = TensorRule("ref_s", "float32", (1, 256)), TensorRule("speed", "float32", (1,))
    found: dict[str, tuple[tuple[TensorRule, ...], tuple[TensorRule, ...]]] = {}
    for size in TOKENS:
        ids, mask = (TensorRule(name, "int32", (1, size)) for name in ("input_ids", "attention_mask"))
        made = TensorRule("pred_dur", "int32", (1, size)), TensorRule("d", "float32", (1, size, FEATURES))
        text = TensorRule("t_en", "float32", (1, TEXT, size))
        halves = TensorRule("s", "float32", (1, 128)), TensorRule("ref_s_out", "float32", (1, 256))
        found[durations(size)] = ((ids, mask, style, speed), (*made, text, *halves))
    for seconds in SECONDS:
        frames, (pitch, trunk, generator) = FRAMES * seconds, frame_stages(seconds)
        curves = tuple(TensorRule(name, "float32", (1, 2 * frames)) for name in ("F0_pred", "N_pred"))
        found[pitch] = ((TensorRule("en", "float32", (1, FEATURES, frames)), halves[0]), curves)
        x_pre = TensorRule("x_pre", "float32", (1, channels, 2 * frames))
        spread = [TensorRule(name, "float32", (1, 1, 2 * frames)) for name in ("f0", "n_input", "mask")]
        asr, short = TensorRule("asr", "float32", (1, TEXT, frames)), TensorRule("mask", "float32", (1, 1, frames))
        found[trunk] = ((asr, *spread[:2], style, short), (x_pre,))
        har = TensorRule("har", "float32", (1, 22, 120 * frames + 1))
        audio = TensorRule("waveform", "float32", (1, 600 * frames))
        found[generator] = ((x_pre, style, har, spread[2]), (audio,))
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
    known=("2026",),
    programs=programs(),
    by_position=False,
    voices=VoicesRule("voices/{voice}.bin", "raw", 510),
    row=RowRule("UTF-16 units - 1, at most the last", lambda ids, symbols, rows: int(np.clip(symbols, 1, rows)) - 1),
    metadata={},
    files=(VOCAB, SOURCE),
    max_tokens=448,
    min_speed=0.5,
    max_speed=2.0,
    opset=0,
    ir_version=0,
    stored=("float32", "float16", "int8"),
    audio=f"fades what belongs to marks into silence; the source's noise is the client's own, drawn from seed {SEED}",
    raw="no marks in the text",
    alternatives=True,
    form="Core ML",
    makes_noise=True,
)
