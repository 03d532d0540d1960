"""kokoro-onnx, sherpa-onnx and kokoro.js: one ONNX file, and voices and symbols as each of them reads those."""

from dataclasses import replace

from kokoro_nb.delivery.clients.client_contract import STORED, ClientContract, RowRule, VoicesRule, speech_rules

JS_FILES = {"float32": "model.onnx", "float16": "model_fp16.onnx", "int8": "model_quantized.onnx"}
ROWS = 511  # where a client takes row n for n ids, and there may be 510

KOKORO_ONNX = ClientContract(
    client="kokoro-onnx",
    versions="0.6",
    known=("0.6",),
    programs={"kokoro.onnx": speech_rules()},
    by_position=False,
    voices=VoicesRule("voices.npz", "npz", 510),
    row=RowRule("n - 1, at most the last", lambda ids, symbols, rows: min(ids, rows) - 1),
    metadata={"kokoro_config": ""},
    files=("config.json",),
    max_tokens=510,
    min_speed=0.5,
    max_speed=2.0,
    opset=17,
    ir_version=13,
    stored=STORED,
    audio="trims silence at both ends and adds pauses of 0.25 s and 0.1 s after marks",
    raw="trim=False, sentence_pause=0, clause_pause=0",
)
KOKORO_ONNX_0_5 = replace(
    KOKORO_ONNX,
    versions="0.5",
    known=("0.5",),
    programs={"kokoro.onnx": speech_rules("tokens")},
    voices=VoicesRule("voices.npz", "npz", ROWS),
    row=RowRule("n", lambda ids, symbols, rows: ids),
    metadata={},
    raw="trim=False",
)
SHERPA_ONNX = ClientContract(
    client="sherpa-onnx",
    versions="2.0",
    known=("2.0",),
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
    max_tokens=510,
    min_speed=0.1,
    max_speed=10.0,
    opset=17,
    ir_version=13,
    stored=STORED,
    audio="shortens pauses to a fifth",
    raw="GenerationConfig.silence_scale = 1",
)
SHERPA_ONNX_1 = replace(
    SHERPA_ONNX, versions="1.13", known=("1.13",), files=("tokens.txt", "espeak-ng-data"), phonemes=False
)
KOKORO_JS = ClientContract(
    client="kokoro.js",
    versions="1.2",
    known=("1.2",),
    programs={f"onnx/{file}": speech_rules() for file in JS_FILES.values()},
    by_position=False,
    voices=VoicesRule("voices/{voice}.bin", "raw", 510),
    row=RowRule("min(n, 509)", lambda ids, symbols, rows: min(ids, 509)),
    metadata={},
    files=("config.json", "tokenizer.json", "tokenizer_config.json"),
    max_tokens=510,
    min_speed=0.5,
    max_speed=2.0,
    opset=17,
    ir_version=10,
    stored=STORED,
    audio="nothing",
    raw="as it is",
    alternatives=True,
)
