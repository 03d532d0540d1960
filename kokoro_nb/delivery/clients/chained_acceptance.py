"""A delivery of seven Core ML programs accepted: chained as its client does, and compared with PyTorch."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.delivery.clients import fluidaudio_client as client
from kokoro_nb.delivery.clients.acceptance import Acceptance, judged
from kokoro_nb.delivery.clients.client_delivery import read_delivery
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.fluidaudio_host import FluidAudioHost
from kokoro_nb.delivery.clients.har_tap import TappedAudio
from kokoro_nb.delivery.clients.mlpackage_stages import exported_packages
from kokoro_nb.delivery.clients.speech_program import NoiseChoice
from kokoro_nb.models.kokoro import Kokoro


def accept_chain(
    kokoro: Kokoro, folder: str | Path, requests: Sequence[Request], tables: Sequence[torch.Tensor]
) -> list[Acceptance]:
    """Speak from the seven programs on the reference executor, and compare with PyTorch from the same `har`.

    The stage of the noise gives no `har`. A twin of it does, and stands for it only where what both add at each rate is
    the same to the bit; where it is not, `from_har` is NaN. Between the stages values are float16, as the client has
    it, which bounds the figure.

    Parameters
    ----------
    kokoro : Kokoro
        The model that was delivered.
    folder : path
        What `client_delivery.deliver_to` wrote for ``fluidaudio``.
    requests : sequence of Request
    tables : sequence of torch.Tensor, shape (510, 1, 256)
        PyTorch's own table of the voice of each request, from which row n - 1 is taken.
    """
    about, rules = read_delivery(folder), client.FLUIDAUDIO
    noise = NoiseChoice(**about.noise)
    twin = exported_packages(kokoro, noise, rules, about.dtype, True) / client.NOISE  # type: ignore[arg-type]
    paths = (path for name in rules.programs for path in (Path(folder) / name).rglob("*") if path.is_file())
    size, rows = sum(path.stat().st_size for path in paths), []
    for request, table in zip(requests, tables, strict=True):
        begun = time.perf_counter()
        said = FluidAudioHost(folder, rules).utter(request)
        seconds = time.perf_counter() - begun
        shown = FluidAudioHost(folder, rules, {client.NOISE: twin}).stages[client.NOISE](said.values)
        tapped = TappedAudio(said.durations, shown["har"], said.audio)
        style = table[len(said.ids) - 3]
        equal, ratio = judged(kokoro, said.ids, style, request.speed, tapped)
        if not all(np.array_equal(shown[name], said.values[name]) for name in ("x_source_0", "x_source_1")):
            ratio = float("nan")
        rows.append(Acceptance(rules.label, about.dtype, request.voice, len(said.ids) - 2, equal, ratio, size, seconds))
    return rows
