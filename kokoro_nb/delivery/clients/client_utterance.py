"""What a client's programs, run here, gave for one text, and the row of the voice that the client takes for it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import STYLE


@dataclass(frozen=True)
class ClientUtterance:
    """One text, spoken.

    Attributes
    ----------
    durations : numpy.ndarray, shape (tokens,), int64, frames
        As predicted.
    audio : numpy.ndarray, shape (600 * frames,), float32
        As the last program gave it.
    """

    durations: np.ndarray
    audio: np.ndarray


def voice_row(folder: Path, contract: ClientContract, request: Request, ids: int) -> np.ndarray:
    """Return the row of a raw voice that the client takes, (1, 256) float32; `ids` are those between the two pads.

    Raises
    ------
    InputError
        If there is no such voice.
    """
    path = folder / contract.voices.path.format(voice=request.voice)
    if not path.is_file():
        raise InputError(f"There is no voice {path.name} in {folder}.")
    rows = np.fromfile(path, "<f4").reshape(-1, 2 * STYLE)
    return rows[max(0, contract.row.of(ids, len(request.symbols), len(rows)))][None]
