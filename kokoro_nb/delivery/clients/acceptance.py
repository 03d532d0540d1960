"""A delivery accepted: durations and audio compared with PyTorch from the same `har`, whatever its client is.

The client itself speaks where it is installed, else what stands for it here.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_delivery import read_delivery
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.client_programs import Request, muteness, speak_in
from kokoro_nb.delivery.clients.exported_programs import NoiseChoice, exported_twin, rename
from kokoro_nb.delivery.clients.hosts import ClientUtterance, host, imitate
from kokoro_nb.delivery.clients.known_clients import FRAMES, contract
from kokoro_nb.delivery.clients.program_check import CHANNELS, observed_har
from kokoro_nb.delivery.clients.programs import PteProgram
from kokoro_nb.errors import InputError
from kokoro_nb.models import model_cuts, seven_stages
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import class_patches
from kokoro_nb.models.speaking import TextToAudio


@dataclass(frozen=True)
class TappedAudio:
    """What the tapped file said.

    Attributes
    ----------
    durations : numpy.ndarray, shape (tokens,), int64, frames
    har : numpy.ndarray, shape (1, 22, 120 * frames + 1), float32
    audio : numpy.ndarray, shape (600 * frames,), float32
    """

    durations: np.ndarray
    har: np.ndarray
    audio: np.ndarray


def tap_har(path: Path, out: Path) -> None:
    """Write a copy of an ONNX file of ours to `out` whose waveform is what `read_tapped` reads.

    Raises
    ------
    InputError
        If the file has no joined magnitude and phase.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(path)
    graph, har = model.graph, har_value(model)
    inner = {"waveform": "tapped_audio", "duration": "tapped_duration"}
    rename(model, inner)
    graph.initializer.append(numpy_helper.from_array(np.array([-1]), "tapped_flat"))
    make, kind = helper.make_node, TensorProto.FLOAT
    graph.node.extend(
        [
            make("Cast", [inner["duration"]], ["tapped_lasting"], to=kind),
            make("Shape", ["tapped_lasting"], ["tapped_count"]),
            make("Cast", ["tapped_count"], ["tapped_tokens"], to=kind),
            make("Reshape", [har, "tapped_flat"], ["tapped_har"]),
            make("Concat", ["tapped_tokens", "tapped_lasting", "tapped_har", "tapped_audio"], ["waveform"], axis=0),
            make("Identity", [inner["duration"]], ["duration"]),
        ]
    )
    onnx.save(model, out)


def har_value(model: Any) -> str:
    """Return the name of `har` in an ONNX model: a magnitude, which is a root, joined with a phase.

    Raises
    ------
    InputError
        If there is none.
    """
    made = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        first = made.get(node.input[0]) if node.op_type == "Concat" and len(node.input) == 2 else None
        if first is not None and first.op_type == "Sqrt":
            return node.output[0]
    raise InputError("The file joins no magnitude with a phase: it is no Kokoro, or was rewritten by an optimiser.")


def read_tapped(audio: np.ndarray) -> TappedAudio:
    """Split what a tapped file said.

    Raises
    ------
    InputError
        If it is something else, or the client has changed it.
    """
    tokens = int(audio[0]) if len(audio) and np.isfinite(audio[0]) else 0
    durations = np.rint(audio[1 : 1 + tokens]).astype(np.int64)
    frames = int(durations.sum()) if (durations >= 0).all() else 0
    size, samples = CHANNELS * (120 * frames + 1), SAMPLES_PER_FRAME * frames
    if not frames or len(audio) != 1 + tokens + size + samples:
        raise InputError(f"{len(audio)} samples are not what a tapped file says; have the client leave it as it is.")
    har = audio[1 + tokens : 1 + tokens + size].reshape(1, CHANNELS, -1)
    return TappedAudio(durations, har, audio[-samples:])


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
        durations; NaN if those are ``other``, or it is not certain what `har` was.
    bytes : int
        Size of the programs.
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


def accept(
    kokoro: Kokoro,
    client: str,
    folder: str | Path,
    requests: Sequence[Request],
    tables: Sequence[torch.Tensor],
    speak: Speak | None = None,
) -> list[Acceptance]:
    """Have a delivery spoken, and compare with PyTorch.

    Where programs give no `har`, it is read inside of the one that computes it, or a twin of that one gives it. That is
    another run: where it does not give the same to the bit, `from_har` is NaN. Between FluidAudio's stages values are
    float16, as the client has it, which bounds the figure.

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
        What speaks from an ONNX file in the client's place.

    Raises
    ------
    InputError
        If the audio was changed, or a text is so short or so long that the client changes its durations: PyTorch has
        no such audio.
    ClientEnded
        If the client ends with an error.
    """
    about, rules = read_delivery(folder), contract(client)
    size = sum(said["bytes"] for name, said in about.files.items() if name.startswith(tuple(rules.programs)))
    if rules.form == "ONNX":
        every = _tapped(client, Path(folder), requests, speak or (imitate if muteness(client) else speak_in))
    else:
        noise = None if rules.makes_noise else NoiseChoice(**about.noise)
        every = _hosted(kokoro, rules, Path(folder), requests, noise)
    rows = []
    for request, table, (ids, said, certain, seconds) in zip(requests, tables, every, strict=True):
        style = table[len(ids) - 3]
        rounded = through_float16(kokoro, ids, style, request.speed) if rules.client == "fluidaudio" else None
        durations, ratio = judged(kokoro, ids, style, request.speed, said, rounded)
        ratio = ratio if certain else float("nan")
        spoken = len(ids) - 2
        rows.append(Acceptance(rules.label, about.dtype, request.voice, spoken, durations, ratio, size, seconds))
    return rows


_Heard = tuple[Sequence[int], TappedAudio, bool, float]  # ids, what was said, whether that is certain, seconds


def _tapped(client: str, folder: Path, requests: Sequence[Request], speak: Speak) -> Iterator[_Heard]:
    """Yield what an ONNX file says whose audio tells `har` too."""
    symbols = vocabulary(folder)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(folder, Path(place) / "tapped"))
        (program,) = copy.rglob("*.onnx")
        tap_har(program, program)
        begun = time.perf_counter()
        spoken = speak(client, copy, requests)
        seconds = time.perf_counter() - begun
    for request, audio in zip(requests, spoken, strict=True):
        yield [0, *(symbols[symbol] for symbol in request.symbols), 0], read_tapped(audio), True, seconds


def _hosted(
    kokoro: Kokoro, rules: ClientContract, folder: Path, requests: Sequence[Request], noise: NoiseChoice | None
) -> Iterator[_Heard]:
    """Yield what programs of several stages say, with the `har` of a twin, of a program of theirs, or of the host."""
    twin = PteProgram(exported_twin(kokoro, noise, rules)) if noise and rules.form == "ExecuTorch" else None
    for request in requests:
        begun, speaker = time.perf_counter(), host(folder, rules)
        said = speaker.utter(request)
        seconds = time.perf_counter() - begun
        assert said.durations is not None
        if twin is not None:
            yield *_pair(said, twin, request, noise is not None and noise.origin == "drawn"), seconds
            continue
        har, certain = said.values.get("har", np.zeros(0)), True
        if noise is not None:
            har, made = observed_har(speaker, said)
            certain = all(np.array_equal(made[name], said.values[name]) for name in ("x_source_0", "x_source_1"))
        yield said.ids, TappedAudio(said.durations, har[..., : 120 * said.frames + 1], said.audio), certain, seconds


def _pair(
    said: ClientUtterance, twin: PteProgram, request: Request, drawn: bool
) -> tuple[Sequence[int], TappedAudio, bool]:
    """Return what the second of two programs says; no two calls of one that draws are alike, and the twin's counts."""
    assert said.durations is not None
    frames = int(said.durations.sum())
    if not FRAMES[0] <= frames <= FRAMES[1]:
        raise InputError(f"'{request.symbols}' lasts {frames} frames, which the client stretches; give another text.")
    audio, har = twin(*(said.values[name] for name in ("tokens", "text_mask", "indices", "d", "voice")))
    tokens, mask = said.values["tokens"][0], said.values["text_mask"][0]
    spoken = audio.reshape(-1) if drawn else said.audio
    lasting = said.durations if said.durations[~mask].any() else said.durations[mask]  # padding that lasts is no token
    return tokens[mask].tolist(), TappedAudio(lasting, har, spoken), np.array_equal(audio.reshape(-1), spoken)


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
        audio = model_cuts.from_har(kokoro.model.decoder, asr, f0, n, style[:, :STYLE], har)
    reference = audio.reshape(-1).numpy().astype(np.float64)
    error = np.sum((said.audio.astype(np.float64) - reference) ** 2)
    return durations, float(10 * np.log10(np.sum(reference**2) / error)) if error else float("inf")


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
