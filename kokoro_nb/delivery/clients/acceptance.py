"""A delivery accepted in the client itself: durations and audio compared with PyTorch from the same `har`."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
Durations = Literal["equal", "equal after float16", "other"]


@dataclass(frozen=True)
class Acceptance:
    """One utterance of a delivery in its client.

    Attributes
    ----------
    client, dtype, voice : str
    ids : int
        Between the two pads.
    durations : {"equal", "equal after float16", "other"}
        Whether each token lasts as long as in PyTorch; where not, whether it does as soon as PyTorch's values are
        rounded to float16 where the client's contract hands them from program to program.
    from_har : float, dB
        PyTorch's audio over the difference from the client's, both computed from the client's own `har` and at its own
        durations; NaN if those are ``other``.
    bytes : int
        Size of the program.
    seconds : float
        What the client took to load, speak and end.
    """

    client: str
    dtype: str
    voice: str
    ids: int
    durations: Durations
    from_har: float
    bytes: int
    seconds: float

    @property
    def durations_right(self) -> bool:
        """Whether the durations are PyTorch's, but for float16 that the contract asks for."""
        return self.durations != "other"


def accept(
    kokoro: Kokoro,
    client: str,
    folder: str | Path,
    requests: Sequence[Request],
    tables: Sequence[torch.Tensor],
    speak: Speak = speak_in,
    fed: Sequence[Sequence[int]] = (),
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
    fed : sequence of sequence of int
        With both pads, what the client makes of each request; by default the ids of its symbols.

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
    every = fed or [[0, *(symbols[symbol] for symbol in request.symbols), 0] for request in requests]
    for request, audio, table, ids in zip(requests, spoken, tables, every, strict=True):
        said, count = read_tapped(audio), len(ids) - 2
        durations, ratio = judged(kokoro, ids, table[count - 1], request.speed, said)
        rows.append(Acceptance(rules.label, about.dtype, request.voice, count, durations, ratio, size, seconds))
    return rows


def judged(
    kokoro: Kokoro,
    ids: Sequence[int],
    style: torch.Tensor,
    speed: float,
    said: TappedAudio,
    rounded: np.ndarray | None = None,
) -> tuple[Durations, float]:
    """Return how the durations compare with PyTorch's, and PyTorch's audio over the difference from a client's, dB.

    Both sides are computed from the client's own `har`; the figure is NaN where the durations are ``other``.

    Parameters
    ----------
    kokoro : Kokoro
    ids : sequence of int
        With both pads.
    style : torch.Tensor, shape (1, 256)
    speed : float
    said : TappedAudio
    rounded : numpy.ndarray, shape (tokens,), int64, optional
        PyTorch's durations if values are rounded where the client's contract hands on float16.
    """
    with torch.no_grad(), class_patches(()):  # the model as published, with torch's own istft
        module = TextToAudio(kokoro.model).eval()
        own, d, t_en = module.text_features(torch.tensor([list(ids)]), style, torch.tensor([speed]))
        durations: Durations = "equal"
        if not np.array_equal(own[0].numpy(), said.durations):
            if rounded is None or not np.array_equal(rounded, said.durations):
                return "other", float("nan")
            durations = "equal after float16"
        asr, f0, n = module.frame_features(torch.tensor(said.durations)[None], d, t_en, style)
        har = torch.tensor(said.har)
        audio = frame_cuts.from_har(kokoro.model.decoder, asr, f0, n, style[:, :STYLE], har)
    reference = audio.reshape(-1).numpy().astype(np.float64)
    error = np.sum((said.audio.astype(np.float64) - reference) ** 2)
    return durations, float(10 * np.log10(np.sum(reference**2) / error)) if error else float("inf")
