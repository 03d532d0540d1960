"""Speak with sherpa-onnx: phonemes by their code points."""

import json
import sys
from pathlib import Path

import numpy as np
import sherpa_onnx

job, place = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
folder = Path(job["folder"])
files = {"model": "model.onnx", "voices": "voices.bin", "tokens": "tokens.txt", "lexicon": "lexicon.txt"}
paths = {name: str(folder / file) for name, file in files.items() if (folder / file).exists()}
kokoro = sherpa_onnx.OfflineTtsKokoroModelConfig(**paths)
speaker = sherpa_onnx.OfflineTts(
    sherpa_onnx.OfflineTtsConfig(model=sherpa_onnx.OfflineTtsModelConfig(kokoro=kokoro, num_threads=1))
)
for number, request in enumerate(job["requests"]):
    config = sherpa_onnx.GenerationConfig()
    config.sid, config.speed = request["number"], request["speed"]
    config.silence_scale = 1.0
    config.phoneme_codepoints = [[ord(symbol) for symbol in request["symbols"]]]
    np.array(speaker.generate("", config).samples, "<f4").tofile(place / f"{number}.f32")
