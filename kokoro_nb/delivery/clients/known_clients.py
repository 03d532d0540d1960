"""The programs in the field whose contracts are known, by name and version."""

import difflib
from dataclasses import replace

from kokoro_nb.delivery.clients.client_contract import (
    ClientContract,
    Programs,
    RowRule,
    VoicesRule,
    signature,
    speech_rules,
)
from kokoro_nb.delivery.clients.fluidaudio_client import FLUIDAUDIO
from kokoro_nb.delivery.clients.kokoro_coreml_client import KOKORO_COREML
from kokoro_nb.errors import InputError
from kokoro_nb.models.speaking import FEATURES

PREDICTOR, SYNTHESIZER = "duration_predictor_std.pte", "synthesizer_std.pte"
TOKENS, FRAMES, SAMPLES = (8, 128, 1), (16, 296, 1), (600 * 16, 600 * 296, 600)


def programs(tokens: int | str = "tokens") -> Programs:
    """Return both signatures; `tokens` is the number of tokens where it is fixed."""
    text, features = "tokens int64 1 tokens, text_mask bool 1 tokens", f"d float32 1 tokens {FEATURES}"
    predictor = f"{text}, voice float32 1 128, speed float32 1 -> durations int64 tokens, {features}"
    synthesizer = f"{text}, indices int64 frames, {features}, voice float32 1 256 -> audio float32 1 1 samples"
    return {PREDICTOR: signature(predictor, tokens=tokens), SYNTHESIZER: signature(synthesizer, tokens=tokens)}


REACT_NATIVE = ClientContract(
    client="react-native-executorch",
    versions="0.10",
    older=("0.9",),
    programs=programs(),
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
    REACT_NATIVE, client="react-native-executorch-padded", older=(), programs=programs(TOKENS[1])
)


JS_FILES = {"float32": "model.onnx", "float16": "model_fp16.onnx", "int8": "model_quantized.onnx"}
ROWS = 511  # where a client takes row n for n ids, and there may be 510

KOKORO_ONNX = ClientContract(
    client="kokoro-onnx",
    versions="0.6",
    programs={"kokoro.onnx": speech_rules()},
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
    programs={"kokoro.onnx": speech_rules("tokens")},
    voices=VoicesRule("voices.npz", "npz", ROWS),
    row=RowRule("n", lambda ids, symbols, rows: ids),
    metadata={},
    raw="trim=False",
)
SHERPA_ONNX = ClientContract(
    client="sherpa-onnx",
    versions="2.0",
    programs={"model.onnx": speech_rules()},
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
    programs={f"onnx/{file}": speech_rules() for file in JS_FILES.values()},
    row=RowRule("min(n, 509)", lambda ids, symbols, rows: min(ids, 509)),
    files=("config.json", "tokenizer.json", "tokenizer_config.json"),
    ir_version=10,
    alternatives=True,
)


CONTRACTS: tuple[ClientContract, ...] = (
    KOKORO_ONNX,
    KOKORO_ONNX_0_5,
    SHERPA_ONNX,
    SHERPA_ONNX_1,
    KOKORO_JS,
    REACT_NATIVE,
    REACT_NATIVE_PADDED,
    FLUIDAUDIO,
    KOKORO_COREML,
)
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
        if not version or any(_within(version, known) or _within(known, version) for known in one.known):
            return one
    raise InputError(f"{name} {version} is not known; use {' or '.join(each for one in forms for each in one.known)}.")


def _within(version: str, known: str) -> bool:
    return version == known or version.startswith(f"{known}.")
