"""Both stages exported, every program in a folder of its own, with the contract beside them.

And utterances decoded by one padded export on each runtime, in turn.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import META, TAPS, Artifact, Backend, Failure, RungError, absence
from kokoro_nb.backends.exported import export_program, output_specs
from kokoro_nb.cache_keys import cache_key
from kokoro_nb.delivery.any_length import BOUNDED, HOST, Stage, open_part, open_stages, second_stage, takes_any_length
from kokoro_nb.delivery.contract import FILE, SCHEMA, Contract, Part, is_whole, write_contract
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, MAX_PHONEMES, SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.padding import widened
from kokoro_nb.models.patches import EXPORT_PATCHES, FAST_PATCHES, patched
from kokoro_nb.models.phonemes import G2P
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.models.stages import DecoderStage
from kokoro_nb.models.voices import load_voice
from kokoro_nb.storage import atomic, cache_dir, require_own

SECONDS = (3.0, 10.0, 45.0)
TOKENS = 256


class PartNotExportedError(InputError):
    """One of the programs of a delivery cannot be exported; `failure` is the record of it."""

    def __init__(self, part: str, failure: Failure) -> None:
        super().__init__(f"The program '{part}' cannot be exported: {failure}.")
        self.failure = failure


@dataclass(frozen=True)
class Delivery:
    """What to deliver.

    Attributes
    ----------
    backend : str
        Key of `BACKENDS` that writes files: the decoder's.
    host : str
        That of all that comes before the decoder; the decoder's by default. The two recurrent stages are the host's
        because ExecuTorch and TVM unroll each LSTM: their time and memory grow with tokens and frames.
    at_har : bool
        Let the decoder begin at `har`, and leave the harmonic source to the host: what a runtime computes from `har` on
        can be held to the same numbers everywhere, which atan2 prevents before it.
    voices : tuple of str
        See `voices.load_voice`; the first is the pipeline's default.
    tokens : int
        Room of the first stage, the two pad tokens among them: 3 to 512.
    seconds : tuple of float
        Room of the second stage, a bucket for each; 0.05 at least.
    any_length : bool
        One program for each part, which takes a text and frames of any length: for ONNX Runtime, in place of `tokens`
        and `seconds`. With ONNX Runtime as host also the decoder for XNNPACK, up to the longest of `seconds`.
    g2p : str
        See `phonemes.phonemise`; the contract keeps it.
    fast : bool
        Export the decoder with `FAST_PATCHES` too: for XNNPACK, which is faster with them.
    """

    backend: str
    host: str = ""
    at_har: bool = False
    voices: tuple[str, ...] = ("",)
    tokens: int = TOKENS
    seconds: tuple[float, ...] = SECONDS
    g2p: G2P = "espeak"
    fast: bool = False
    any_length: bool = False

    @property
    def buckets(self) -> dict[str, int]:
        """Name and frames of each bucket, smallest first; none where any length is taken."""
        if self.any_length:
            return {}
        return {f"{each:g}s": round(each * FRAMES_PER_SECOND) for each in sorted(set(self.seconds))}

    @property
    def most_frames(self) -> int:
        """The most that a decoder of any length takes; 0 without a limit, or where `any_length` is not wanted."""
        return round(max(self.seconds) * FRAMES_PER_SECOND) if self.any_length and self.backend == BOUNDED else 0

    def runtime(self, part: str) -> Backend:
        """Return the backend of a part."""
        return backend(self.backend if part.startswith("decoder") or not self.host else self.host)

    def patches(self, part: str) -> tuple[str, ...]:
        """Return the patches that a part is exported with."""
        return (*EXPORT_PATCHES, *(FAST_PATCHES if self.fast and part.startswith("decoder") else ()))


def deliver(kokoro: Kokoro, request: Delivery, folder: str | Path) -> Contract:
    """Export both stages into `folder`, whole or not at all.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    request : Delivery
        Backends, voices and sizes.
    folder : path
        Replaced, if it holds an earlier delivery.

    Raises
    ------
    InputError
        If a voice or a size is no good, the folder holds something else, or a program cannot be exported: with its
        exact error.
    """
    from tqdm.auto import tqdm

    _check(request)
    require_own(folder, FILE, "a delivery", "folder")
    tables = {voice or kokoro.default_voice: load_voice(kokoro, voice)[:, 0].numpy() for voice in request.voices}
    parts = {}
    with atomic(folder) as draft:
        draft.mkdir(parents=True)
        model = kokoro.model
        for part, module, inputs in tqdm(list(_stages(model, request)), desc=request.backend, unit="program"):
            with patched(model, request.patches(part)):
                parts[part] = _part(request, part, module, inputs, draft)
        files = {voice: f"voice_{number}.npy" for number, voice in enumerate(tables)}
        for voice, table in tables.items():
            np.save(draft / files[voice], table)
        tokens = MAX_PHONEMES + 2 if request.any_length else request.tokens
        room: dict[str, Any] = {"tokens": tokens, "buckets": request.buckets, "most_frames": request.most_frames}
        rates: dict[str, Any] = {"sample_rate": SAMPLE_RATE, "samples_per_frame": SAMPLES_PER_FRAME}
        text: dict[str, Any] = {"g2p": request.g2p, "vocab": dict(model.vocab), "voices": files}
        contract = Contract(kokoro.weights.label, parts=parts, **room, **rates, **text)
        write_contract(draft, contract)
    return contract


def delivered(kokoro: Kokoro, request: Delivery) -> Path:
    """Return the folder in the cache with what `deliver` makes of this, made if it is not there yet, or not whole."""
    folder = delivered_folder(kokoro, request)
    if not is_whole(folder):
        shutil.rmtree(folder, ignore_errors=True)
        deliver(kokoro, request, folder)
    return folder


def delivered_folder(kokoro: Kokoro, request: Delivery) -> Path:
    """Return the folder in the cache for what `deliver` makes of this; its name changes with all of it."""
    voices = tuple(voice or kokoro.default_voice for voice in request.voices)
    runtimes = [request.runtime(part) for part in ("duration", "decoder")]
    packages = {"torch", *(package for one in runtimes for package in getattr(one, "packages", ()))}
    patches = (EXPORT_PATCHES, FAST_PATCHES)
    about = {"weights": kokoro.weights.sha256, "request": repr(replace(request, voices=voices)), "patches": patches}
    key = cache_key({**about, "schema": SCHEMA}, ("models", "backends", "delivery"), sorted(packages))
    return cache_dir() / "delivered" / key[:16]


def _check(request: Delivery) -> None:
    if not request.seconds or not all(2 / FRAMES_PER_SECOND <= each < float("inf") for each in request.seconds):
        raise InputError(
            f"Buckets of {list(request.seconds)} s; give one or more of at least {2 / FRAMES_PER_SECOND} s each."
        )
    if not 3 <= request.tokens <= MAX_PHONEMES + 2:
        raise InputError(f"Room for {request.tokens} tokens; give 3 to {MAX_PHONEMES + 2}.")
    host = request.host or request.backend
    if request.any_length and not takes_any_length(request.backend, HOST):
        raise InputError(
            f"A decoder for {request.backend} takes one length alone; give its buckets with --seconds, not "
            f"--any-length, or use {HOST} or {BOUNDED}, which take any."
        )
    if request.any_length and not takes_any_length(request.backend, host):
        raise InputError(
            f"Before the decoder {host} takes one length alone; host it on {HOST}, or leave out --any-length."
        )
    absent = [reason for part in ("duration", "decoder") if (reason := request.runtime(part).available())]
    if absent:
        raise InputError(" ".join(dict.fromkeys(absent)))


def _stages(model: Any, request: Delivery) -> Iterator[Stage]:
    """Yield name, module and example inputs of every program."""
    if request.any_length:
        yield from open_stages(model, request.at_har)
        return
    ids, some = torch.zeros(1, request.tokens, dtype=torch.int64), torch.tensor([3])
    ref_s = torch.zeros(1, 2 * STYLE)
    yield "duration", DurationStage(model), {"ids": ids, "length": some, "ref_s": ref_s, "speed": torch.ones(1)}
    for bucket, frames in request.buckets.items():
        for stage, module, inputs in second_stage(model, request.at_har, frames, length=torch.tensor([2])):
            yield f"{stage}_{bucket}", module, inputs


def _part(request: Delivery, part: str, module: torch.nn.Module, inputs: dict[str, Tensor], folder: Path) -> Part:
    """Export a program into `folder`; return the contract's entry."""
    runtime = request.runtime(part)
    if request.any_length:
        try:
            return open_part(part, module, inputs, folder, runtime.name, request.most_frames)
        except RungError as error:
            raise PartNotExportedError(part, error.failure(runtime.name)) from error
    exported = export_program(module, inputs)
    if isinstance(exported, Failure):
        raise PartNotExportedError(part, exported)
    artifact = runtime.export(exported, inputs)
    if isinstance(artifact, Failure):
        raise PartNotExportedError(part, artifact)
    return Part(runtime.name, _copy(artifact, part, folder), exported.inputs, output_specs(exported))


def _copy(artifact: Artifact, part: str, folder: Path) -> str:
    """Copy an artefact under the name that integrators expect; return its path in `folder`."""
    if artifact.path is None:
        raise InputError(f"{artifact.backend} writes no file that could be delivered; use one that does.")
    place = folder / part
    shutil.copytree(artifact.folder, place, ignore=shutil.ignore_patterns(META, TAPS))
    named = place / f"kokoro_{part}{artifact.path.suffix}"
    (place / artifact.path.name).rename(named)
    return named.relative_to(folder).as_posix()


@dataclass(frozen=True)
class Speaker:
    """Some utterances as one runtime decodes them.

    Attributes
    ----------
    backend : str
        Its name.
    audio : tuple of numpy.ndarray, each of shape (600 * frames,), float32
        24 kHz, full scale 1; empty where the runtime failed.
    reason : str
        How it failed.
    """

    backend: str
    audio: tuple[np.ndarray, ...]
    reason: str = ""


def speak_all(model: Any, cases: Sequence[Case], names: Sequence[str]) -> tuple[Speaker, ...]:
    """Export the decoder once for each runtime, with room for the longest utterance, and decode them all with it.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; it is exported with all of those that an export has.
    cases : sequence of Case
        The utterances, with their noise.
    names : sequence of str
        Keys of `BACKENDS`.
    """
    room = max(case.frames for case in cases)
    given = [widened(case.decoder_inputs(), room) | {"length": torch.tensor([case.frames])} for case in cases]
    with patched(model, EXPORT_PATCHES):
        exported = export_program(DecoderStage(model.decoder), given[0])

    def spoken(name: str) -> Speaker:
        runtime = backend(name)
        artifact = absence(runtime) or runtime.export(exported, given[0])
        if isinstance(artifact, str | Failure):
            return Speaker(name, (), str(artifact))
        program, made = runtime.load(artifact), []
        for case, inputs in zip(cases, given, strict=True):
            (audio,) = program.run(inputs).values()
            made.append(audio.reshape(-1)[: SAMPLES_PER_FRAME * case.frames].astype(np.float32))
        return Speaker(name, tuple(made))

    return tuple(map(spoken, names))
