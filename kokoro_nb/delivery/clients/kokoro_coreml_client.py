"""mattmireles/kokoro-coreml: four Core ML programs, each in several sizes, and a source that the host computes."""

import json
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Programs, RowRule, TensorRule, VoicesRule
from kokoro_nb.delivery.clients.material import Material
from kokoro_nb.models.sized_stages import TEXT
from kokoro_nb.models.staged_speech import FEATURES

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


def write(material: Material, contract: ClientContract, folder: Path) -> None:
    """Write the folder; `material.source` is that of the packages."""
    material.copy_programs(contract, folder)
    material.write_voices(contract, folder)
    (folder / "runtime").mkdir()
    (folder / VOCAB).write_text(json.dumps({"vocab": material.vocab}, ensure_ascii=False, indent=1), encoding="utf-8")
    (folder / SOURCE).write_text(json.dumps(material.config["source"], indent=1), encoding="utf-8")
