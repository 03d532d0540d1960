"""The programs in the field whose contracts are known, by name and version."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Programs, RowRule, VoicesRule, signature
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLES_PER_FRAME
from kokoro_nb.models.seven_stages import TEXT
from kokoro_nb.models.speaking import FEATURES

PREDICTOR, SYNTHESIZER = "duration_predictor_std.pte", "synthesizer_std.pte"
TOKENS, FRAMES, SAMPLES = (8, 128, 1), (16, 296, 1), (600 * 16, 600 * 296, 600)


def signed(texts: Mapping[str, str], **sizes: int | str) -> Programs:
    """Return the signatures of programs, each written as `signature` reads it; of sizes left out any will do."""
    return {name: signature(text, **sizes) for name, text in texts.items()}


TOKEN_FEATURES = f"d float32 1 tokens {FEATURES}"
PAIR = {
    PREDICTOR: f"""
        tokens int64 1 tokens, text_mask bool 1 tokens, voice float32 1 128, speed float32 1
        -> durations int64 tokens, {TOKEN_FEATURES}
    """,
    SYNTHESIZER: f"""
        tokens int64 1 tokens, text_mask bool 1 tokens, indices int64 frames, {TOKEN_FEATURES}, voice float32 1 256
        -> audio float32 1 1 samples
    """,
}
REACT_NATIVE = ClientContract(
    client="react-native-executorch",
    versions="0.10",
    older=("0.9",),
    programs=signed(PAIR),
    by_position=True,
    row=RowRule("symbols - 1, at most 127 and the last", lambda ids, symbols, rows: min(symbols - 1, 127, rows - 1)),
    max_tokens=TOKENS[1] - 2,
    min_speed=0.1,
    max_speed=3.0,
    stored=("float32",),
    audio="cuts behind the last sounding token, strips silence but for 50 ms, adds a pause after marks",
    raw="nothing of it can be switched off",
    ranges={"tokens": TOKENS, "frames": FRAMES, "samples": SAMPLES},
    form="ExecuTorch",
)
REACT_NATIVE_PADDED = replace(
    REACT_NATIVE, client="react-native-executorch-padded", older=(), programs=signed(PAIR, tokens=TOKENS[1])
)


JS_FILES = {"float32": "model.onnx", "float16": "model_fp16.onnx", "int8": "model_quantized.onnx"}
# of the one ONNX file that kokoro-onnx, sherpa-onnx and kokoro.js take, behind the tokens
REST = "style float32 1 256, speed float32 1 -> waveform float32 samples, duration int64 tokens"
SPEECH_RULES = signature(f"input_ids int64 1 tokens, {REST}")
ROWS = 511  # where a client takes row n for n ids, and there may be 510

KOKORO_ONNX = ClientContract(
    client="kokoro-onnx",
    versions="0.6",
    programs={"kokoro.onnx": SPEECH_RULES},
    voices=VoicesRule("voices.npz", "npz", 510),
    row=RowRule("n - 1, at most the last", lambda ids, symbols, rows: min(ids, rows) - 1),
    metadata={"kokoro_config": ""},
    files=("config.json",),
    audio="trims silence at both ends and adds pauses of 0.25 s and 0.1 s after marks",
    raw="trim=False, sentence_pause=0, clause_pause=0",
)
KOKORO_ONNX_0_5 = replace(
    KOKORO_ONNX,
    versions="0.5",
    programs={"kokoro.onnx": signature(f"tokens int64 1 tokens, {REST}")},
    voices=VoicesRule("voices.npz", "npz", ROWS),
    row=RowRule("n", lambda ids, symbols, rows: ids),
    metadata={},
    raw="trim=False",
)
SHERPA_ONNX = ClientContract(
    client="sherpa-onnx",
    versions="2.0",
    programs={"model.onnx": SPEECH_RULES},
    by_position=True,
    voices=VoicesRule("voices.bin", "raw of all", ROWS),
    row=RowRule("n", lambda ids, symbols, rows: ids),
    metadata={
        "sample_rate": "24000",
        "n_speakers": "",
        "style_dim": f"{ROWS},1,256",
        "has_espeak": "1",
        "version": "2",
        "voice": "en-us",
    },
    files=("tokens.txt", "lexicon.txt"),
    min_speed=0.1,
    max_speed=10.0,
    audio="shortens pauses to a fifth",
    raw="GenerationConfig.silence_scale = 1",
)
SHERPA_ONNX_1 = replace(SHERPA_ONNX, versions="1.13", files=("tokens.txt", "espeak-ng-data"), phonemes=False)
KOKORO_JS = ClientContract(
    client="kokoro.js",
    versions="1.2",
    programs={f"onnx/{file}": SPEECH_RULES for file in JS_FILES.values()},
    row=RowRule("min(n, 509)", lambda ids, symbols, rows: min(ids, 509)),
    files=("config.json", "tokenizer.json", "tokenizer_config.json"),
    ir_version=10,
    alternatives=True,
)

ALBERT, POST_ALBERT, ALIGNMENT, PROSODY, NOISE, VOCODER, TAIL = (
    f"Kokoro{name}.mlpackage"
    for name in ("Albert", "PostAlbert", "Alignment", "Prosody", "Noise_v2", "Vocoder", "Tail_v2")
)
FLUIDAUDIO_VOCAB, FIRST_VOICE = "vocab.json", "af_heart.bin"  # the second is the name that the client asks for
# in the order in which FluidAudio runs them; ``bert``, ``hidden``, ``features``, ``wide`` and ``near`` are widths: of
# BERT, of the text features, of these with the style, of the generator at its first rate and at its second (768, 512,
# 640, 256 and 128 in the published model)
STAGES = {
    ALBERT: "input_ids int32 1 tokens, attention_mask int32 1 tokens -> bert_dur float16 1 tokens bert",
    POST_ALBERT: """
        bert_dur float16 1 tokens bert, input_ids int32 1 tokens, style_s float16 1 128, speed float16 1,
        attention_mask int32 1 tokens
        -> duration float32 1 tokens, d float16 1 tokens features, t_en float16 1 hidden tokens
    """,
    ALIGNMENT: """
        pred_dur int32 1 tokens, d float16 1 tokens features, t_en float16 1 hidden tokens
        -> en float16 1 features frames, asr float16 1 hidden frames
    """,
    PROSODY: "en float16 1 features frames, style_s float16 1 128 -> F0 float32 1 pitches, N float32 1 pitches",
    NOISE: """
        F0_curve float32 1 pitches, style_timbre float32 1 128
        -> x_source_0 float32 1 wide slow, x_source_1 float32 1 near fast
    """,
    VOCODER: """
        asr float16 1 hidden frames, F0_curve float16 1 pitches, N_pred float16 1 pitches,
        x_source_0 float16 1 wide slow, x_source_1 float16 1 near fast, style_timbre float16 1 128
        -> anchor float32 1, x_pre float32 1 near fast
    """,
    TAIL: "x_pre float32 1 near fast -> audio float32 samples",
}


def frame_sizes(frames: int) -> dict[str, int]:
    """Return the sizes that so many frames have on each axis."""
    spectral = {"slow": 20 * frames, "fast": 120 * frames + 1}
    return {"frames": frames, "pitches": 2 * frames, **spectral, "samples": SAMPLES_PER_FRAME * frames}


LEAST, MOST, STEP = frame_sizes(1), frame_sizes(2000), {**frame_sizes(1), "fast": 120}
FLUIDAUDIO = ClientContract(
    client="fluidaudio",
    versions="0.15",
    programs=signed(STAGES),
    row=RowRule("characters - 1, at most the last", lambda ids, symbols, rows: int(np.clip(symbols, 1, rows)) - 1),
    files=(FLUIDAUDIO_VOCAB, FIRST_VOICE),
    audio="nothing that is known",
    ranges={"tokens": (2, 512, 1), **{axis: (LEAST[axis], MOST[axis], STEP[axis]) for axis in STEP}},
    form="Core ML",
)


TOKEN_SIZES = (32, 64, 128, 256, 320, 384, 512)
SECONDS = (3, 7, 10, 15, 30)
COREML_VOCAB, SOURCE = "runtime/kokoro-vocab.json", "runtime/hnsf_weights.json"
SEED = 42  # of the noise that kokoro-coreml makes
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
    x_pre float32 1 channels pitches, ref_s float32 1 256, har float32 1 22 fast, mask float32 1 1 pitches
    -> waveform float32 1 samples
"""


def durations_path(tokens: int) -> str:
    """Return the path of kokoro-coreml's first stage with room for so many tokens."""
    return f"coreml/kokoro_duration_t{tokens}.mlpackage"


def frame_stages(seconds: int) -> tuple[str, str, str]:
    """Return the paths of the three stages over frames for so many seconds, in the order in which they run."""
    names = f"f0ntrain_t{FRAMES_PER_SECOND * seconds}", f"decoder_pre_{seconds}s", f"decoder_har_post_{seconds}s"
    pitch, trunk, generator = (f"coreml/kokoro_{name}.mlpackage" for name in names)
    return pitch, trunk, generator


def sized_programs(channels: int | str = "channels") -> Programs:
    """Return the signatures of kokoro-coreml's programs in all sizes.

    `channels` are those between the last two stages, a string for any.
    """
    found = {durations_path(size): signature(DURATION, tokens=size) for size in TOKEN_SIZES}
    for seconds in SECONDS:
        stages = dict(zip(frame_stages(seconds), (PITCH, TRUNK, GENERATOR), strict=True))
        found |= signed(stages, channels=channels, **frame_sizes(FRAMES_PER_SECOND * seconds))
    return found


@dataclass(frozen=True)
class Room:
    """Which of the sizes of kokoro-coreml's programs are delivered.

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

    tokens: int = TOKEN_SIZES[-1]
    seconds: tuple[float, ...] = SECONDS

    def __post_init__(self) -> None:
        if self.tokens not in TOKEN_SIZES:
            raise InputError(f"There is no size for {self.tokens} tokens; use one of {_listed(TOKEN_SIZES)}.")
        other = [size for size in self.seconds if size not in SECONDS]
        if other or not self.seconds:
            raise InputError(f"There is no size of {_listed(other) or 'no'} s; use some of {_listed(SECONDS)}.")

    @property
    def programs(self) -> tuple[str, ...]:
        """Paths of the programs in the folder."""
        first = [durations_path(size) for size in TOKEN_SIZES if size <= self.tokens]
        rest = [name for size in SECONDS if size in self.seconds for name in frame_stages(size)]
        return (*first, *rest)


def _listed(sizes: Sequence[float]) -> str:
    return ", ".join(f"{size:g}" for size in sizes)


KOKORO_COREML = ClientContract(
    client="kokoro-coreml",
    versions="2026",
    programs=sized_programs(),
    row=RowRule("UTF-16 units - 1, at most the last", lambda ids, symbols, rows: int(np.clip(symbols, 1, rows)) - 1),
    files=(COREML_VOCAB, SOURCE),
    max_tokens=448,
    audio=f"fades what belongs to marks into silence; the source's noise is the client's own, drawn from seed {SEED}",
    raw="no marks in the text",
    alternatives=True,
    form="Core ML",
    makes_noise=True,
)


ONNX_CLIENTS = (KOKORO_ONNX, KOKORO_ONNX_0_5, SHERPA_ONNX, SHERPA_ONNX_1, KOKORO_JS)
CONTRACTS = (*ONNX_CLIENTS, REACT_NATIVE, REACT_NATIVE_PADDED, FLUIDAUDIO, KOKORO_COREML)
CLIENTS: tuple[str, ...] = tuple(dict.fromkeys(one.client for one in CONTRACTS))


def contract(client: str) -> ClientContract:
    """Return what a program expects.

    Parameters
    ----------
    client : str
        A name, which stands for its newest known version, or one with a version: ``kokoro-onnx==0.5``.

    Raises
    ------
    InputError
        If the program or the version is not known; those that are, are named.
    """
    name, _, version = (part.strip() for part in client.partition("=="))
    forms = [one for one in CONTRACTS if one.client == name]
    if not forms:
        near = difflib.get_close_matches(name, CLIENTS, 1, 0.0)[0]
        raise InputError(f"There is no client '{name}'; the nearest is {near}, and all are {', '.join(CLIENTS)}.")
    for one in forms:
        if not version or one.covers(version) or any(known.startswith(f"{version}.") for known in one.known):
            return one
    raise InputError(f"{name} {version} is not known; use {' or '.join(each for one in forms for each in one.known)}.")
