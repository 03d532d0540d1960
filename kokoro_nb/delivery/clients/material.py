"""What a delivery is made of: a program, the voices, the symbols and the words of a lexicon."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Dtype
from kokoro_nb.delivery.clients.speech_program import finish


@dataclass(frozen=True)
class Material:
    """What the writer of a client's folder needs.

    Attributes
    ----------
    source : Path
        The ONNX file as it was exported, in float32; for clients of another form, the folder of their programs.
    config : mapping
        What clients read of a ``config.json``; its ``vocab`` is symbol -> id.
    voices : mapping
        Name -> table, (510, 256) float32, row i for i + 1 phonemes.
    dtype : str
        How the weights are stored.
    words : tuple of str
        Those of the lexicon, where the client reads one.
    programs : tuple of str
        Of a folder of programs those that are delivered; all of the contract's by default.
    """

    source: Path
    config: Mapping[str, Any]
    voices: Mapping[str, np.ndarray]
    dtype: Dtype
    words: tuple[str, ...]
    programs: tuple[str, ...] = ()

    @property
    def vocab(self) -> dict[str, int]:
        """Symbol -> id."""
        return dict(self.config["vocab"])

    def table(self, name: str, contract: ClientContract) -> np.ndarray:
        """Return the rows of a voice, (rows, 256) float32, so that the client says what PyTorch says.

        The row that the client takes for n ids holds the style for n phonemes, wherever that row is.
        """
        own, rows = self.voices[name], contract.voices.rows
        placed = np.repeat(own[:1], rows, axis=0)
        for count in range(1, len(own) + 1):
            placed[contract.row.of(count, count, rows)] = own[count - 1]
        return placed

    def copy_programs(self, contract: ClientContract, folder: Path) -> None:
        """Copy the programs out of `source`: files, or packages, which are folders."""
        for name in self.programs or contract.programs:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (self.source / name).is_dir() else shutil.copyfile
            copy(self.source / name, folder / name)

    def write_voices(self, contract: ClientContract, folder: Path) -> None:
        """Write a raw file for each voice: float32, little endian, row after row."""
        for voice in self.voices:
            path = folder / contract.voices.path.format(voice=voice)
            path.parent.mkdir(exist_ok=True)
            self.table(voice, contract).astype("<f4").tofile(path)

    def program(self, contract: ClientContract, path: Path) -> None:
        """Write the one ONNX file for a client that takes such a file."""
        ((inputs, _),) = set(contract.programs.values())
        metadata = {**contract.metadata, "n_speakers": str(len(self.voices)), "speaker_names": ",".join(self.voices)}
        shutil.copyfile(self.source, path)
        finish(path, self.dtype, inputs, metadata, self.config)
