"""kokoro.js: a repository in the layout of transformers.js."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kokoro_nb.delivery.clients.client_contract import STORED, ClientContract, RowRule, VoicesRule, speech_rules
from kokoro_nb.delivery.clients.material import Material

FILES = {"float32": "model.onnx", "float16": "model_fp16.onnx", "int8": "model_quantized.onnx"}

KOKORO_JS = ClientContract(
    client="kokoro.js",
    versions="1.2",
    known=("1.2",),
    programs={f"onnx/{file}": speech_rules() for file in FILES.values()},
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


def write(material: Material, contract: ClientContract, folder: Path) -> None:
    """Write the repository, with one program: kokoro.js asks for it by its dtype (fp32, fp16, q8)."""
    (folder / "onnx").mkdir()
    material.program(contract, folder / "onnx" / FILES[material.dtype])
    material.write_voices(contract, folder)
    for file, text in texts(material.vocab).items():
        (folder / file).write_text(text, encoding="utf-8")


def texts(vocab: Mapping[str, int]) -> dict[str, str]:
    """Return what stands in each of the repository's files of text, by path."""
    contents = {"config.json": {"model_type": "style_text_to_speech_2"}, **_tokenizer(vocab)}
    return {file: json.dumps(content, ensure_ascii=False, indent=1) for file, content in contents.items()}


def _tokenizer(symbols: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return the tokenizer: each character an id, what the vocabulary lacks removed, a pad at both ends."""
    vocab = {"$": 0, **symbols}
    inside = "".join(f"\\{symbol}" if symbol in "\\]^-" else symbol for symbol in vocab)
    pad = {"SpecialToken": {"id": "$", "type_id": 0}}
    post = {
        "type": "TemplateProcessing",
        "single": [pad, {"Sequence": {"id": "A", "type_id": 0}}, pad],
        "special_tokens": {"$": {"id": "$", "ids": [0], "tokens": ["$"]}},
    }
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"Regex": f"[^{inside}]"}, "content": ""},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False},
        "post_processor": post,
        "decoder": None,
        "model": {"vocab": vocab},
    }
    config = {"model_max_length": 512, "pad_token": "$", "unk_token": "$", "tokenizer_class": "PreTrainedTokenizer"}
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": config}
