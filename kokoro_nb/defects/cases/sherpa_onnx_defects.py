"""Defects of sherpa-onnx's Kokoro, shown by a model whose audio is the ids that it is fed."""

import json
import tempfile
from pathlib import Path
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
import numpy as np, sherpa_onnx as s
about, folder = json.loads(sys.argv[1]), sys.argv[2]
files = {name: os.path.join(folder, file) for name, file in about["files"].items()}
kokoro = s.OfflineTtsKokoroModelConfig(**files)
speaker = s.OfflineTts(s.OfflineTtsConfig(model=s.OfflineTtsModelConfig(kokoro=kokoro)))
config = s.GenerationConfig()
config.silence_scale = 1.0
for name, value in about["set"].items():
    setattr(config, name, value)
np.save(f"{folder}/audio.npy", np.array(speaker.generate(about["text"], config).samples, np.float32))
"""

    table = "a 1\nb 2\n. 4\n"
    words = "ab a b\n"
    espeak = ""

    def spoken(self, text: str = "", rows: int = 510, half: bool = False, **settings: Any) -> np.ndarray:
        import onnx
        from onnx import TensorProto, helper

        with tempfile.TemporaryDirectory() as folder:
            place, kind = Path(folder), TensorProto.FLOAT16 if half else TensorProto.FLOAT
            named = helper.make_tensor_value_info
            sizes: dict[str, list[str | int]] = {"a": [1, "tokens"], "b": [1, 256], "c": [1]}
            inputs = [
                named(name, TensorProto.INT64 if name == "a" else TensorProto.FLOAT, sizes[name]) for name in sizes
            ]
            node = helper.make_node("Cast", ["a"], ["audio"], to=kind)
            graph = helper.make_graph([node], "ids", inputs, [named("audio", kind, [1, "tokens"])])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
            about = {"sample_rate": "24000", "n_speakers": "1", "style_dim": f"{rows},1,256", "version": "2"}
            about |= {"voice": "en-us", "has_espeak": "1"}
            helper.set_model_props(model, about)
            onnx.save(model, place / "model.onnx")
            np.zeros(rows * 256, np.float32).tofile(place / "voices.bin")
            (place / "tokens.txt").write_text(self.table, encoding="utf-8")
            (place / "lexicon.txt").write_text(self.words, encoding="utf-8")
            files = {"model": "model.onnx", "voices": "voices.bin", "tokens": "tokens.txt", "lexicon": "lexicon.txt"}
            files |= {"data_dir": self.espeak} if self.espeak else {}
            self.printed(json.dumps({"files": files, "text": text, "set": settings}), folder)
            return np.load(place / "audio.npy")

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


class SherpaOnnxUnreadLexicon(SherpaOnnxDefect):
    """sherpa-onnx 1.13.4 never reads an English lexicon that it was given.

    The file has to name a voice of espeak-ng, en-us unless it names another, and every word goes to espeak-ng with it.

    Where: sherpa-onnx/csrc/offline-tts-kokoro-impl.h: the choice of the front end in 1.x, found by what it feeds
    Control: symbols numbered so that espeak-ng's own pronunciation has these ids; or sherpa-onnx 2.0 and later
    Varies: Only 1.x has it: from 2.0 on there is no espeak-ng, and the lexicon is read.
    """

    packages = ("sherpa-onnx", "onnx", "espeakng-loader")
    inputs = {"ids": torch.tensor([0.0, 1, 2, 3, 0])}

    def said(self, table: str, words: str) -> np.ndarray:
        import espeakng_loader

        self.table, self.words, self.espeak = table, words, espeakng_loader.get_data_path()
        return self.spoken("ab")

    def broken(self, ids: Tensor) -> np.ndarray:
        return self.said("a 1\nc 2\nb 3\næ 5\nˈ 7\n", "ab a c b\n")

    def mended(self, ids: Tensor) -> np.ndarray:
        return self.said("ˈ 1\næ 2\nb 3\n", "ab ˈ æ b\n")
