"""What FluidAudio does with its seven programs, step by step, on the reference executor of Core ML files.

The client runs on Apple's systems alone. Durations are rounded and clamped here as it does; between the stages values
are converted to the dtype that the next one declares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients import fluidaudio_client as client
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.storage import read_json

KINDS = {65568: "float32", 65552: "float16", 131104: "int32", 65600: "float64"}  # of Core ML's ArrayFeatureType


@dataclass(frozen=True)
class ChainedUtterance:
    """What the chain was given and gave for one text.

    Attributes
    ----------
    ids : tuple of int
        With both pads.
    durations : numpy.ndarray, shape (tokens,), int64, frames
    audio : numpy.ndarray, shape (600 * frames,), float32
    values : mapping
        What every stage gave, by name.
    """

    ids: tuple[int, ...]
    durations: np.ndarray
    audio: np.ndarray
    values: Mapping[str, np.ndarray]


class StageProgram:
    """A ``.mlpackage``, executed operator by operator.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputError
        If it cannot be read.
    """

    def __init__(self, path: Path):
        from kokoro_nb.backends.mil.interpreter import Interpreter
        from kokoro_nb.backends.mil.saved_program import load_program

        saved = load_program(path)
        self._interpreter = Interpreter(saved.program)
        self.description = saved.spec.description
        kinds = ((one.name, one.type.multiArrayType.dataType) for one in self.description.input)
        self.dtypes = {name: KINDS.get(kind, "float32") for name, kind in kinds}
        self.inputs, self.outputs = self._interpreter.inputs, self._interpreter.outputs

    def __call__(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once on the inputs among `values`, each converted to the dtype that the file declares."""
        given = {}
        for name in self.inputs:
            if name not in values:
                raise InputError(f"The program wants '{name}', which no stage before it gives.")
            given[name] = np.asarray(values[name]).astype(self.dtypes[name])
        return self._interpreter.run(given)


class FluidAudioHost:
    """Speaks from a folder as the client does.

    Parameters
    ----------
    folder : path
    contract : ClientContract
    replaced : mapping, optional
        Name of a program -> a package that is run in its place.
    """

    def __init__(self, folder: str | Path, contract: ClientContract, replaced: Mapping[str, Path] | None = None):
        self.folder, self.contract, self.replaced = Path(folder), contract, dict(replaced or {})
        self.vocab: dict[str, int] = read_json(self.folder / "vocab.json", "table of symbols")

    @cached_property
    def stages(self) -> dict[str, StageProgram]:
        """The programs, in the order in which they run."""
        return {name: StageProgram(self.replaced.get(name, self.folder / name)) for name in self.contract.programs}

    def utter(self, request: Request) -> ChainedUtterance:
        """Speak one text of phonemes.

        Raises
        ------
        InputError
            If there is no such voice, or a program refuses what it is given.
        """
        ids = (0, *(self.vocab[symbol] for symbol in request.symbols if symbol in self.vocab), 0)
        path = self.folder / self.contract.voices.path.format(voice=request.voice)
        if not path.is_file():
            raise InputError(f"There is no voice {path.name} in {self.folder}.")
        rows = np.fromfile(path, "<f4").reshape(-1, 2 * STYLE)
        row = rows[self.contract.row.of(len(ids) - 2, len(request.symbols), len(rows))][None]
        values: dict[str, np.ndarray] = {
            "input_ids": np.array([ids], np.int32),
            "attention_mask": np.ones((1, len(ids)), np.int32),
            "style_s": row[:, STYLE:],
            "style_timbre": row[:, :STYLE],
            "speed": np.array([request.speed], np.float32),
        }
        for name, stage in self.stages.items():
            values |= stage(values)
            if name == client.POST_ALBERT:
                values["pred_dur"] = np.maximum(np.rint(values["duration"].astype(np.float32)), 1).astype(np.int32)
            if name == client.PROSODY:
                values |= {"F0_curve": values["F0"], "N_pred": values["N"]}
        durations = values["pred_dur"].reshape(-1).astype(np.int64)
        return ChainedUtterance(ids, durations, values["audio"].reshape(-1).astype(np.float32), values)
