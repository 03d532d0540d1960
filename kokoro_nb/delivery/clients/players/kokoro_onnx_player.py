"""Speak with kokoro-onnx."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from kokoro_onnx import Kokoro

job, place = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
folder, config = Path(job["folder"]), json.loads((Path(job["folder"]) / "config.json").read_text())
speaker = Kokoro(str(folder / "kokoro.onnx"), str(folder / "voices.npz"), vocab_config=config)
raw: dict[str, Any] = {"trim": False}
if hasattr(speaker, "create_timed"):  # from 0.6 on
    raw |= {"sentence_pause": 0.0, "clause_pause": 0.0}
for number, request in enumerate(job["requests"]):
    about = {"voice": request["voice"], "speed": request["speed"], "is_phonemes": True}
    samples, _ = speaker.create(request["symbols"], **about, **raw)
    np.asarray(samples, "<f4").tofile(place / f"{number}.f32")
