"""sherpa-onnx, the C++ library with its many bindings: an ONNX file, all voices in one raw file, tokens, lexicon."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients.client_contract import STORED, ClientContract, RowRule, VoicesRule, speech_rules
from kokoro_nb.delivery.clients.material import Material
from kokoro_nb.errors import InputError
from kokoro_nb.models.phonemes import phonemise

_PROGRAM = "model.onnx"
ROWS = 511  # for n ids the client takes row n, and there may be 510
_METADATA = {
    "sample_rate": "24000",
    "n_speakers": "",
    "style_dim": f"{ROWS},1,256",
    "has_espeak": "1",
    "version": "2",
    "voice": "en-us",
}

SHERPA_ONNX = ClientContract(
    client="sherpa-onnx",
    versions="2.0",
    known=("2.0",),
    programs={_PROGRAM: speech_rules()},
    by_position=True,
    voices=VoicesRule("voices.bin", "raw of all", ROWS),
    row=RowRule("n", lambda ids, symbols, rows: ids),
    metadata=_METADATA,
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
SHERPA_ONNX_1 = ClientContract(
    client="sherpa-onnx",
    versions="1.13",
    known=("1.13",),
    programs={_PROGRAM: speech_rules()},
    by_position=True,
    voices=VoicesRule("voices.bin", "raw of all", ROWS),
    row=RowRule("n", lambda ids, symbols, rows: ids),
    metadata=_METADATA,
    files=("tokens.txt", "espeak-ng-data"),
    max_tokens=510,
    min_speed=0.1,
    max_speed=10.0,
    opset=17,
    ir_version=13,
    stored=STORED,
    audio="shortens pauses to a fifth",
    raw="GenerationConfig.silence_scale = 1",
    phonemes=False,
)


def write(material: Material, contract: ClientContract, folder: Path) -> None:
    """Write the folder; the tables are moved by a row, since the client takes row n for n ids."""
    material.program(contract, folder / _PROGRAM)
    every = np.stack([material.table(name, contract) for name in material.voices])
    every.astype("<f4").tofile(folder / contract.voices.path)
    (folder / "tokens.txt").write_text(tokens(material.vocab), encoding="utf-8")
    if "lexicon.txt" in contract.files:
        (folder / "lexicon.txt").write_text(lexicon(material), encoding="utf-8")
    if "espeak-ng-data" in contract.files:
        import espeakng_loader

        shutil.copytree(espeakng_loader.get_data_path(), folder / "espeak-ng-data")


def tokens(vocab: Mapping[str, int]) -> str:
    """Return a line for each symbol: the symbol and its id."""
    return "".join(f"{symbol} {number}\n" for symbol, number in vocab.items())


def lexicon(material: Material) -> str:
    """Return a line for each word of the delivery: the word and its phonemes, as espeak gives them."""
    lines = []
    for word in material.words:
        symbols = [symbol for symbol in phonemise(word, "espeak")[0] if symbol in material.vocab and symbol != " "]
        if not symbols:
            raise InputError(f"The word '{word}' has no phoneme in the vocabulary; leave it out of the list of words.")
        lines.append(f"{word.lower()} {' '.join(symbols)}\n")
    return "".join(lines)
