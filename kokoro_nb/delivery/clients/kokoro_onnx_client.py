"""kokoro-onnx, the Python package: an ONNX file and an ``.npz`` of voices."""

import json
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients.client_contract import STORED, ClientContract, RowRule, VoicesRule, speech_rules
from kokoro_nb.delivery.clients.material import Material

_AUDIO = "trims silence at both ends and adds pauses of 0.25 s and 0.1 s after marks"
_RAW = "trim=False, sentence_pause=0, clause_pause=0"
_PROGRAM = "kokoro.onnx"

KOKORO_ONNX = ClientContract(
    client="kokoro-onnx",
    versions="0.6",
    known=("0.6",),
    programs={_PROGRAM: speech_rules()},
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
    audio=_AUDIO,
    raw=_RAW,
)
KOKORO_ONNX_0_5 = ClientContract(
    client="kokoro-onnx",
    versions="0.5",
    known=("0.5",),
    programs={_PROGRAM: speech_rules("tokens")},
    by_position=False,
    voices=VoicesRule("voices.npz", "npz", 511),
    row=RowRule("n", lambda ids, symbols, rows: ids),
    metadata={},
    files=("config.json",),
    max_tokens=510,
    min_speed=0.5,
    max_speed=2.0,
    opset=17,
    ir_version=13,
    stored=STORED,
    audio=_AUDIO,
    raw="trim=False",
)


def write(material: Material, contract: ClientContract, folder: Path) -> None:
    """Write the folder; the tables are moved by a row where the client takes row n for n ids."""
    material.program(contract, folder / _PROGRAM)
    tables = {name: material.table(name, contract)[:, None] for name in material.voices}
    with (folder / contract.voices.path).open("wb") as stream:
        np.savez(stream, **tables)  # type: ignore[arg-type]  # numpy's stub takes the names for its own arguments
    (folder / "config.json").write_text(json.dumps(material.config, ensure_ascii=False, indent=1), encoding="utf-8")
