"""Core ML programs chained as a client chains them, on the reference executor of Core ML files.

Such clients run on Apple's systems alone. What one does between its programs is written in a class of its own, after
its contract; values are converted to the dtype that the next program declares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_programs import Request, require_speakable
from kokoro_nb.delivery.clients.client_utterance import ClientUtterance
from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_json

KINDS = {65568: "float32", 65552: "float16", 131104: "int32", 65600: "float64"}  # of Core ML's ArrayFeatureType


@dataclass(frozen=True)
class ChainedUtterance(ClientUtterance):
    """What the chain was given and gave for one text.

    Attributes
    ----------
    ids : tuple of int
        With both pads.
    values : mapping
        What every stage gave, by name.
    """

    ids: tuple[int, ...]
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
        with quietly():
            from kokoro_nb.backends.mil.interpreter import Interpreter
            from kokoro_nb.backends.mil.saved_program import load_program

            saved = load_program(path)
            self._interpreter = Interpreter(saved.program)
        self.description = saved.spec.description
        kinds = ((one.name, one.type.multiArrayType.dataType) for one in self.description.input)
        self.dtypes = {name: KINDS.get(kind, "float32") for name, kind in kinds}
        self.inputs, self.outputs = self._interpreter.inputs, self._interpreter.outputs

    def __call__(self, values: Mapping[str, np.ndarray], observe: Any = None) -> dict[str, np.ndarray]:
        """Run once on the inputs among `values`, each converted to the dtype that the file declares.

        `observe` is that of `Interpreter.run`.
        """
        given = {}
        for name in self.inputs:
            if name not in values:
                raise InputError(f"The program wants '{name}', which no stage before it gives.")
            given[name] = np.asarray(values[name]).astype(self.dtypes[name])
        return self._interpreter.run(given, observe)


class ChainedHost:
    """Speaks from a folder as a client does.

    Parameters
    ----------
    folder : path
    contract : ClientContract
    replaced : mapping, optional
        Name of a program -> a package that is run in its place.
    """

    symbols: ClassVar[str]  # the file of the table of symbols

    def __init__(self, folder: str | Path, contract: ClientContract, replaced: Mapping[str, Path] | None = None):
        self.folder, self.contract, self.replaced = Path(folder), contract, dict(replaced or {})
        self._loaded: dict[str, StageProgram] = {}

    @cached_property
    def vocab(self) -> dict[str, int]:
        """Symbol -> id."""
        return dict(read_json(self.folder / self.symbols, "table of symbols"))

    def stage(self, name: str) -> StageProgram:
        """Return a program of the folder, loaded once."""
        if name not in self._loaded:
            self._loaded[name] = StageProgram(self.replaced.get(name, self.folder / name))
        return self._loaded[name]

    def ids(self, request: Request) -> tuple[int, ...]:
        """Return the ids of a text with both pads; what the table lacks is left out.

        Raises
        ------
        InputError
            If they are more than the client takes, or the speed is out of its range.
        """
        require_speakable(self.contract, self.folder, request)
        return (0, *(self.vocab[symbol] for symbol in request.symbols if symbol in self.vocab), 0)

    def utter(self, request: Request) -> ChainedUtterance:
        """Speak one text of phonemes.

        Raises
        ------
        InputError
            If there is no such voice, the text is too long, or a program refuses what it is given.
        """
        raise NotImplementedError
