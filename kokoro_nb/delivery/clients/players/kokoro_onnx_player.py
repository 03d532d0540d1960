"""Speak with kokoro-onnx."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from kokoro_onnx import Kokoro

job, out = json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]
folder, config = Path(job["folder"]), json.loads((Path(job["folder"]) / "config.json").read_text())
speaker = Kokoro(str(folder / "kokoro.onnx"), str(folder / "voices.npz"), vocab_config=config)
raw: dict[str, Any] = {"trim": False}
if hasattr(speaker, "create_timed"):  # from 0.6 on
    raw |= {"sentence_pause": 0.0, "clause_pause": 0.0}
spoken: dict[str, Any] = {}
for number, request in enumerate(job["requests"]):
    about = {"voice": request["voice"], "speed": request["speed"], "is_phonemes": True}
    spoken[str(number)] = speaker.create(request["symbols"], **about, **raw)[0]
np.savez(out, **spoken)
