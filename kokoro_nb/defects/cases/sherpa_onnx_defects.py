"""Defects of sherpa-onnx's Kokoro, shown by a model whose audio is the ids that it is fed."""

import json
import tempfile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.defects.defect_case import ProcessDefect


class SherpaOnnxDefect(ProcessDefect):
    """A file of one operator, with a vocabulary of three symbols, spoken in a process of its own."""

    tool = "sherpa-onnx"
    packages: tuple[str, ...] = ("sherpa-onnx", "onnx")
    script = """
import json, os, sys
import numpy as np, onnx, onnx.parser, sherpa_onnx as s
about = json.loads(sys.argv[1])
os.chdir(sys.argv[2])
onnx.save(onnx.parser.parse_model(about["model"]), "model.onnx")
np.zeros(about["rows"] * 256, np.float32).tofile("voices.bin")
files = {"model": "model.onnx", "voices": "voices.bin", "tokens": "tokens.txt", "lexicon": "lexicon.txt"}
for name, text in (("tokens.txt", "a 1\\nb 2\\n. 4\\n"), ("lexicon.txt", "ab a b\\n")):
    with open(name, "w") as file:
        file.write(text)
kokoro = s.OfflineTtsKokoroModelConfig(**files)
speaker = s.OfflineTts(s.OfflineTtsConfig(model=s.OfflineTtsModelConfig(kokoro=kokoro)))
config = s.GenerationConfig()
config.silence_scale = 1.0
for name, value in about["set"].items():
    setattr(config, name, value)
np.save("audio.npy", np.array(speaker.generate(about["text"], config).samples, np.float32))
"""

    def spoken(self, text: str = "", rows: int = 510, half: bool = False, **settings: Any) -> np.ndarray:
        kind, number = ("float16", 10) if half else ("float", 1)
        about = {"sample_rate": "24000", "n_speakers": "1", "style_dim": f"{rows},1,256", "version": "2"}
        pairs = ", ".join(f'"{name}": "{value}"' for name, value in about.items())
        graph = f"ids (int64[1,tokens] a, float[1,256] b, float[1] c) => ({kind}[1,tokens] audio)"
        model = f'<ir_version: 8, opset_import: ["": 14], metadata_props: [{pairs}]> {graph}'
        model += f"{{ audio = Cast <to={number}> (a) }}"
        with tempfile.TemporaryDirectory() as folder:
            self.printed(json.dumps({"model": model, "rows": rows, "text": text, "set": settings}), folder)
            return np.load(f"{folder}/audio.npy")

    right = staticmethod(lambda ids: ids)


class SherpaOnnxClosingMark(SherpaOnnxDefect):
    """sherpa-onnx 2.0.1 feeds the last mark of a sentence a second time, behind the closing pad.

    The pads are put round the sentence with its mark, and the mark is then added to what is framed already, so that the
    row of the style is one off too.

    Where: sherpa-onnx/csrc: the text front end of Kokoro from 2.0 on, found by what it feeds
    Control: the same phonemes given by their code points
    """

    inputs = {"ids": torch.tensor([0.0, 1, 2, 4, 0])}

    def broken(self, ids: Tensor) -> np.ndarray:
        return self.spoken("ab.")

    def mended(self, ids: Tensor) -> np.ndarray:
        return self.spoken(phoneme_codepoints=[[ord(symbol) for symbol in "ab."]])


class SherpaOnnxLongTokens(SherpaOnnxDefect):
    """sherpa-onnx 2.0.1 ends the process when it is given 510 tokens without a mark.

    It takes row n of the style for n tokens, and of the 510 rows of a voice the last is row 509.

    Where: sherpa-onnx/csrc/offline-tts-kokoro-model.cc: Run
    Control: voices of 511 rows
    """

    error = "510 vs 510"
    inputs = {"ids": torch.tensor([0.0, *[1, 2] * 255, 0])}

    def broken(self, ids: Tensor) -> np.ndarray:
        return self.spoken(tokens=[["a", "b"] * 255])

    def mended(self, ids: Tensor) -> np.ndarray:
        return self.spoken(rows=511, tokens=[["a", "b"] * 255])


class SherpaOnnxHalfAudio(SherpaOnnxDefect):
    """sherpa-onnx reads the bytes of audio in float16 as float32, without a word.

    The first output is read through a pointer to float, whatever the file says of its dtype.

    Where: sherpa-onnx/csrc/offline-tts-kokoro-impl.h: Process, found by what it plays
    Control: audio cast to float32 in the file
    """

    inputs = {"ids": torch.tensor([0.0, 1, 2, 1, 2, 1, 2, 0])}

    def broken(self, ids: Tensor) -> np.ndarray:
        return self.spoken(half=True, phoneme_codepoints=[[ord(symbol) for symbol in "ababab"]])

    def mended(self, ids: Tensor) -> np.ndarray:
        return self.spoken(phoneme_codepoints=[[ord(symbol) for symbol in "ababab"]])
