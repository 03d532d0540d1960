"""A delivery of ExecuTorch programs accepted: spoken from as its client does, and compared with PyTorch."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.delivery.clients.acceptance import Acceptance, judged
from kokoro_nb.delivery.clients.client_delivery import read_delivery
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.har_tap import TappedAudio
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.pte_programs import exported_twin
from kokoro_nb.delivery.clients.react_native_client import FRAMES
from kokoro_nb.delivery.clients.react_native_host import PteProgram, ReactNativeHost
from kokoro_nb.delivery.clients.speech_program import NoiseChoice
from kokoro_nb.errors import InputError
from kokoro_nb.models.kokoro import Kokoro


def accept_pair(
    kokoro: Kokoro, client: str, folder: str | Path, requests: Sequence[Request], tables: Sequence[torch.Tensor]
) -> list[Acceptance]:
    """Speak from both programs, and compare with PyTorch from the same `har`.

    The programs give no `har`. A twin of the second does, and stands for it only where its audio is the same to the
    bit; where it is not, `from_har` is NaN. Where the noise is drawn no two calls are alike, and the twin's audio is
    what is compared.

    Parameters
    ----------
    kokoro : Kokoro
        The model that was delivered.
    client : str
        ``react-native-executorch`` or ``react-native-executorch-padded``.
    folder : path
        What `client_delivery.deliver_to` wrote.
    requests : sequence of Request
    tables : sequence of torch.Tensor, shape (510, 1, 256)
        PyTorch's own table of the voice of each request, from which row n - 1 is taken.

    Raises
    ------
    InputError
        If a text is so short or so long that the client changes its durations: PyTorch has no such audio.
    """
    about, rules = read_delivery(folder), contract(client)
    twin = PteProgram(exported_twin(kokoro, NoiseChoice(**about.noise), rules))
    size = sum((Path(folder) / name).stat().st_size for name in rules.programs)
    rows = []
    for request, table in zip(requests, tables, strict=True):
        begun = time.perf_counter()
        said = ReactNativeHost(folder, rules).utter(request)
        seconds = time.perf_counter() - begun
        frames = int(said.durations.sum())
        if not FRAMES[0] <= frames <= FRAMES[1]:
            raise InputError(
                f"'{request.symbols}' lasts {frames} frames, which the client stretches; give another text."
            )
        audio, har = twin(*said.given)
        tokens, mask = (value[0] for value in said.given[:2])
        spoken = audio.reshape(-1) if about.noise["origin"] == "drawn" else said.audio
        tapped = TappedAudio(said.durations[mask], har, spoken)
        durations, ratio = judged(kokoro, tokens[mask].tolist(), table[int(mask.sum()) - 3], request.speed, tapped)
        if not np.array_equal(audio.reshape(-1), spoken):
            ratio = float("nan")
        if said.durations[~mask].any():
            durations = "other"
        count = int(mask.sum()) - 2
        rows.append(Acceptance(rules.label, about.dtype, request.voice, count, durations, ratio, size, seconds))
    return rows
