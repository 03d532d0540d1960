"""A delivery of Core ML programs accepted: chained as its client does, and compared with PyTorch."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.delivery.clients import fluidaudio_client
from kokoro_nb.delivery.clients.acceptance import Acceptance, judged
from kokoro_nb.delivery.clients.chained_host import ChainedUtterance, StageProgram
from kokoro_nb.delivery.clients.chained_hosts import chained_host
from kokoro_nb.delivery.clients.client_delivery import read_delivery
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.har_tap import TappedAudio
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.mlpackage_stages import exported_packages
from kokoro_nb.delivery.clients.speech_program import NoiseChoice
from kokoro_nb.models import seven_stages
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import class_patches


def accept_chain(
    kokoro: Kokoro, client: str, folder: str | Path, requests: Sequence[Request], tables: Sequence[torch.Tensor]
) -> list[Acceptance]:
    """Speak from the programs on the reference executor, and compare with PyTorch from the same `har`.

    kokoro-coreml's host computes `har`. FluidAudio's stage of the noise gives none; a twin of it does, and stands for
    it only where what both add at each rate is the same to the bit; else `from_har` is NaN. Between its stages
    values are float16, as the client has it, which bounds the figure.

    Parameters
    ----------
    kokoro : Kokoro
        The model that was delivered.
    client : str
        ``fluidaudio`` or ``kokoro-coreml``.
    folder : path
        What `client_delivery.deliver_to` wrote.
    requests : sequence of Request
    tables : sequence of torch.Tensor, shape (510, 1, 256)
        PyTorch's own table of the voice of each request, from which row n - 1 is taken.
    """
    about, rules = read_delivery(folder), contract(client)
    twin = None
    if rules.client == "fluidaudio":
        made = exported_packages(kokoro, NoiseChoice(**about.noise), rules, about.dtype, True)  # type: ignore[arg-type]
        twin = StageProgram(made / fluidaudio_client.NOISE)
    paths = (path for name in rules.programs for path in (Path(folder) / name).rglob("*") if path.is_file())
    size, rows = sum(path.stat().st_size for path in paths), []
    for request, table in zip(requests, tables, strict=True):
        begun = time.perf_counter()
        said = chained_host(folder, rules).utter(request)
        seconds = time.perf_counter() - begun
        style, (har, same) = table[len(said.ids) - 3], _har(said, twin)
        rounded = through_float16(kokoro, said.ids, style, request.speed) if twin else None
        tapped = TappedAudio(said.durations, har, said.audio)
        durations, ratio = judged(kokoro, said.ids, style, request.speed, tapped, rounded)
        ratio, count = ratio if same else float("nan"), len(said.ids) - 2
        rows.append(Acceptance(rules.label, about.dtype, request.voice, count, durations, ratio, size, seconds))
    return rows


def through_float16(kokoro: Kokoro, ids: Sequence[int], style: torch.Tensor, speed: float) -> np.ndarray:
    """Return PyTorch's durations, (tokens,) int64, for FluidAudio: BERT's values, style and speed become float16.

    Its contract declares those inputs so; 1.2 is 1.2001953125 there, and a duration near a half is rounded otherwise.
    """
    tokens, style_s = torch.tensor([list(ids)]), style[:, STYLE:]
    every = torch.ones_like(tokens)
    with torch.no_grad(), class_patches(()):
        handed = (seven_stages.AlbertStage(kokoro.model).eval()(tokens, every), style_s, torch.tensor([speed]))
        bert_dur, style_s, rate = (value.half().float() for value in handed)
        stage = seven_stages.PostAlbertStage(kokoro.model).eval()
        lasting, _, _ = stage(bert_dur, tokens, style_s, rate, every)
    return lasting[0].round().clamp(min=1).long().numpy()


def _har(said: ChainedUtterance, twin: StageProgram | None) -> tuple[np.ndarray, bool]:
    """Return what the audio was computed from, and whether that is certain."""
    if twin is None:
        return said.values["har"][..., : 120 * int(said.durations.sum()) + 1], True
    shown = twin(said.values)
    return shown["har"], all(np.array_equal(shown[name], said.values[name]) for name in ("x_source_0", "x_source_1"))
