"""A delivery accepted in the client itself: durations and audio compared with PyTorch from the same `har`."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.delivery.clients.client_delivery import read_delivery, vocabulary
from kokoro_nb.delivery.clients.client_programs import Request, speak_in
from kokoro_nb.delivery.clients.har_tap import TappedAudio, read_tapped, tap_har
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.models import frame_cuts
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import class_patches
from kokoro_nb.models.speaking import TextToAudio

Speak = Callable[[str, Path, Sequence[Request]], list[np.ndarray]]


@dataclass(frozen=True)
class Acceptance:
    """One utterance of a delivery in its client.

    Attributes
    ----------
    client, dtype, voice : str
    ids : int
        Between the two pads.
    durations_equal : bool
        Whether each token lasts as long as in PyTorch.
    from_har : float, dB
        PyTorch's audio over the difference from the client's, both computed from the client's own `har`; NaN if they
        are of different lengths.
    bytes : int
        Size of the program.
    seconds : float
        What the client took to load, speak and end.
    """

    client: str
    dtype: str
    voice: str
    ids: int
    durations_equal: bool
    from_har: float
    bytes: int
    seconds: float


def accept(
    kokoro: Kokoro,
    client: str,
    folder: str | Path,
    requests: Sequence[Request],
    tables: Sequence[torch.Tensor],
    speak: Speak = speak_in,
) -> list[Acceptance]:
    """Have a client speak a delivery, and compare with PyTorch.

    Parameters
    ----------
    kokoro : Kokoro
        The model that was delivered.
    client : str
        See `known_clients.contract`.
    folder : path
        What `client_delivery.deliver_to` wrote.
    requests : sequence of Request
    tables : sequence of torch.Tensor, shape (510, 1, 256)
        PyTorch's own table of the voice of each request, from which row n - 1 is taken.
    speak : callable, optional
        What speaks in the client's place.

    Raises
    ------
    InputError
        If the client cannot speak here, or changes the audio.
    ClientEnded
        If it ends with an error.
    """
    about, symbols, rules = read_delivery(folder), vocabulary(folder), contract(client)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(folder, Path(place) / "tapped"))
        (program,) = (path for path in copy.rglob("*.onnx"))
        size = program.stat().st_size
        tap_har(program, program)
        begun = time.perf_counter()
        spoken = speak(client, copy, requests)
        seconds = time.perf_counter() - begun
    rows = []
    for request, audio, table in zip(requests, spoken, tables, strict=True):
        said = read_tapped(audio)
        ids, count = [0, *(symbols[symbol] for symbol in request.symbols), 0], len(request.symbols)
        equal, ratio = judged(kokoro, ids, table[count - 1], request.speed, said)
        rows.append(Acceptance(rules.label, about.dtype, request.voice, count, equal, ratio, size, seconds))
    return rows


def judged(
    kokoro: Kokoro, ids: Sequence[int], style: torch.Tensor, speed: float, said: TappedAudio
) -> tuple[bool, float]:
    """Return whether the durations are PyTorch's, and PyTorch's audio over the difference from a client's, dB.

    Both are computed from the client's own `har`; the figure is NaN where the durations differ.
    """
    ours, reference = from_their_har(kokoro, torch.tensor([list(ids)]), style, speed, said)
    if not np.array_equal(ours, said.durations):
        return False, float("nan")
    error = np.sum((said.audio.astype(np.float64) - reference) ** 2)
    return True, float(10 * np.log10(np.sum(reference**2) / error)) if error else float("inf")


def from_their_har(
    kokoro: Kokoro, ids: torch.Tensor, style: torch.Tensor, speed: float, said: TappedAudio
) -> tuple[np.ndarray, np.ndarray]:
    """Return PyTorch's durations, (tokens,) int64, and its audio, (samples,) float64, from the `har` of a client.

    The model is as published: no patch, torch's own istft.
    """
    with torch.no_grad(), class_patches(()):
        module = TextToAudio(kokoro.model).eval()
        lasting, asr, f0, n = module.features(ids, style, torch.tensor([speed], dtype=torch.float32))
        durations = lasting[0].numpy()
        if not np.array_equal(durations, said.durations):
            return durations, np.zeros(0)
        har = torch.tensor(said.har)
        audio = frame_cuts.from_har(kokoro.model.decoder, asr, f0, n, style[:, :STYLE], har)
    return durations, audio.reshape(-1).numpy().astype(np.float64)
