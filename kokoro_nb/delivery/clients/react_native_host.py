"""What react-native-executorch does with its two programs, step by step, on ExecuTorch's own runtime.

The client runs on phones alone. What it does between text and audio is written here after its contract, so that a
folder can be spoken with on any machine; it shows that the folder keeps the contract, not that the client does.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.client_utterance import ClientUtterance, voice_row
from kokoro_nb.delivery.clients.model_schema import METHOD
from kokoro_nb.delivery.clients.react_native_client import FRAMES, PREDICTOR, SYNTHESIZER, TOKENS
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE, full_config

SILENCE, KEPT = 0.005, 1200  # of full scale; samples, 50 ms


@dataclass(frozen=True)
class StagedUtterance(ClientUtterance):
    """What both programs were given and gave for one text.

    Attributes
    ----------
    given : tuple of numpy.ndarray
        Inputs of the second program, in order.
    played : numpy.ndarray, shape (samples,), float32
        Cut and stripped as the client does; without the pause that it adds.
    """

    given: tuple[np.ndarray, ...]
    played: np.ndarray


class PteProgram:
    """A ``.pte`` file on ExecuTorch's runtime.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputError
        If the runtime does not load it.
    """

    def __init__(self, path: Path):
        with quietly():
            from executorch.runtime import Runtime

            try:
                self._program = Runtime.get().load_program(str(path))
                self._forward = self._program.load_method("forward")
            except (RuntimeError, ValueError, OSError) as error:
                raise InputError(f"ExecuTorch does not load {path.name} ({error}).") from error
        if self._forward is None:
            raise InputError(f"{path.name} has no method forward.")

    def schema(self) -> Any:
        """Return the schema of the file, as text where that is no JSON; None if it has none."""
        if METHOD not in self._program.method_names:
            return None
        with quietly():
            (text,) = self._program.load_method(METHOD).execute([])
        try:
            return json.loads(text)
        except (TypeError, ValueError):
            return text

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        """Run the method ``forward`` once.

        Raises
        ------
        InputError
            If the program refuses what it is given.
        """
        import torch

        try:
            with quietly():
                made = self._forward.execute([torch.from_numpy(np.ascontiguousarray(value)) for value in values])
        except RuntimeError as error:
            shapes = ", ".join(str(value.shape) for value in values)
            raise InputError(f"The program refuses inputs of {shapes} ({error}).") from error
        return [np.array(value.numpy()) for value in made]


class ReactNativeHost:
    """Speaks from a delivered folder as the client does.

    Parameters
    ----------
    folder : path
    contract : ClientContract
    """

    def __init__(self, folder: str | Path, contract: ClientContract):
        self.folder, self.contract = Path(folder), contract
        self.predictor, self.synthesizer = (PteProgram(self.folder / name) for name in (PREDICTOR, SYNTHESIZER))
        self.room = contract.programs[PREDICTOR][0][0].shape[1]
        self.vocab: Mapping[str, int] = full_config()["vocab"]  # the client's own table, in its program

    def utter(self, request: Request) -> StagedUtterance:
        """Speak one text of phonemes.

        Raises
        ------
        InputError
            If there is no such voice, or a program refuses what it is given.
        """
        symbols = list(request.symbols.strip())
        least = self.room if isinstance(self.room, int) else TOKENS[0]
        count = int(np.clip(len(symbols) + 2, least, TOKENS[1]))
        tokens, mask = np.zeros((1, count), np.int64), np.zeros((1, count), bool)
        known = [self.vocab[symbol] for symbol in symbols if symbol in self.vocab][: count - 2]
        tokens[0, 1 : 1 + len(known)] = known
        mask[0, : len(symbols) + 2] = True
        voice = voice_row(self.folder, self.contract, replace(request, symbols="".join(symbols)), len(known))
        durations, d = self.predictor(tokens, mask, voice[:, STYLE:], np.array([request.speed], np.float32))
        lasting = fitted(durations, *FRAMES[:2])
        indices = np.repeat(np.arange(count), lasting)
        given = (tokens, mask, indices, d, voice)
        audio = self.synthesizer(*given)[0].reshape(-1)
        return StagedUtterance(durations, audio, given, self._cut(audio, lasting, symbols, tokens[0]))

    def _cut(self, audio: np.ndarray, lasting: np.ndarray, symbols: Sequence[str], tokens: np.ndarray) -> np.ndarray:
        pads = np.flatnonzero(tokens[1:] == 0)
        end = lasting[: (pads[0] + 2) if len(pads) else len(tokens)].sum()
        last = len(tokens) - (1 if symbols and symbols[-1].isalpha() else 2)
        part = audio[: SAMPLES_PER_FRAME * int(np.minimum(end, lasting[:last].sum()))]
        loud = np.flatnonzero(np.abs(part) > SILENCE)
        return part[max(0, loud[0] - KEPT) : loud[-1] + KEPT] if len(loud) else part[:0]


def fitted(durations: np.ndarray, least: int, most: int) -> np.ndarray:
    """Return durations that add up to a length within the program's room, as they are if they do already.

    Each is scaled and rounded up where all are to be fewer, down where more, and none falls to 0; what is left over
    goes to those that rounding changed most.

    >>> fitted(np.array([4, 4, 2]), 2, 5).tolist()
    [2, 2, 1]
    """
    total = int(durations.sum())
    target = int(np.clip(total, least, most))
    if target == total or not total:
        return durations.astype(np.int64)
    exact = durations * target / total
    rounded = np.maximum(np.ceil(exact) if target < total else np.floor(exact), durations > 0).astype(np.int64)
    step = int(np.sign(target - rounded.sum()))
    for place in np.argsort(-np.abs(rounded - exact), kind="stable")[: abs(target - int(rounded.sum()))]:
        rounded[place] += step
    return rounded
