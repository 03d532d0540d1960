"""Both stages exported, every program in a folder of its own, with the contract beside them."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import META, TAPS, Artifact, Failure
from kokoro_nb.backends.exported import export_program, output_specs
from kokoro_nb.delivery.contract import FILE, Contract, Part, write_contract
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import HARMONICS, MAX_PHONEMES, SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.padding import PaddedDecoderStage, PaddedDurationStage, PaddedProsody
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.phonemes import G2P
from kokoro_nb.models.voices import load_voice
from kokoro_nb.storage import atomic, cache_dir, digest, require_own

SECONDS = (3.0, 10.0, 45.0)
TOKENS = 256
FRAME_RATE = SAMPLE_RATE // SAMPLES_PER_FRAME  # 40 per second


def deliver(
    kokoro: Kokoro,
    name: str,
    folder: str | Path,
    voices: Sequence[str] = ("",),
    tokens: int = TOKENS,
    seconds: Sequence[float] = SECONDS,
    g2p: G2P = "espeak",
) -> Contract:
    """Export both stages on a backend into `folder`, whole or not at all.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    name : str
        Key of `BACKENDS` that writes files.
    folder : path
        Replaced, if it holds an earlier delivery.
    voices : sequence of str
        See `voices.load_voice`; the first is the pipeline's default.
    tokens : int
        Room of the first stage, the two pad tokens among them: 3 to 512.
    seconds : sequence of float
        Room of the second stage, a bucket for each; 0.05 at least.
    g2p : str
        See `phonemes.phonemise`; the contract keeps it.

    Raises
    ------
    InputError
        If a voice or a size is no good, the folder holds something else, or a program cannot be exported: with its
        exact error.
    """
    from tqdm.auto import tqdm

    buckets = _buckets(seconds)
    if not 3 <= tokens <= MAX_PHONEMES + 2:
        raise InputError(f"Room for {tokens} tokens; give 3 to {MAX_PHONEMES + 2}.")
    runtime, parts = backend(name), {}
    absent = runtime.available()
    if absent:
        raise InputError(absent)
    require_own(folder, FILE, "a delivery", "folder")
    tables = {voice or kokoro.default_voice: load_voice(kokoro, voice)[:, 0].numpy() for voice in voices}
    stages = list(_stages(kokoro.model, tokens, buckets))
    with atomic(folder) as draft:
        draft.mkdir(parents=True)
        for part, module, inputs in tqdm(stages, desc=name, unit="program"):
            with patched(kokoro.model, EXPORT_PATCHES):
                exported = export_program(module, inputs)
            artifact = exported if isinstance(exported, Failure) else runtime.export(exported, inputs)
            if isinstance(artifact, Failure) or isinstance(exported, Failure):
                raise InputError(f"The program '{part}' cannot be exported: {artifact}.")
            parts[part] = Part(_copy(artifact, part, draft), exported.inputs, output_specs(exported))
        files = {voice: f"voice_{number}.npy" for number, voice in enumerate(tables)}
        for voice, table in tables.items():
            np.save(draft / files[voice], table)
        sizes = (tokens, buckets, SAMPLE_RATE, SAMPLES_PER_FRAME)
        contract = Contract(name, kokoro.weights.label, *sizes, g2p, dict(kokoro.model.vocab), files, parts)
        write_contract(draft, contract)
    return contract


def delivered_folder(
    kokoro: Kokoro, name: str, voices: Sequence[str], tokens: int, seconds: Sequence[float], g2p: G2P
) -> Path:
    """Return the folder in the cache for what `deliver` makes of these; its name changes with all of them."""
    settings = (name, kokoro.weights.label, *(voice or kokoro.default_voice for voice in voices), tokens, *seconds, g2p)
    return cache_dir() / "delivered" / digest(repr(settings), repr(EXPORT_PATCHES))[:16]


def _buckets(seconds: Sequence[float]) -> dict[str, int]:
    """Return the name and the frames of each bucket, smallest first."""
    if not seconds or not all(2 / FRAME_RATE <= each < float("inf") for each in seconds):
        raise InputError(f"Buckets of {list(seconds)} s; give one or more, each of {2 / FRAME_RATE} s at least.")
    return {f"{each:g}s": round(each * FRAME_RATE) for each in sorted(set(seconds))}


def _stages(
    model: Any, tokens: int, buckets: dict[str, int]
) -> Iterator[tuple[str, torch.nn.Module, dict[str, Tensor]]]:
    """Yield name, module and example inputs of every program."""
    hidden, ref_s = model.predictor.text_encoder.d_model, torch.zeros(1, 2 * STYLE)
    ids, some = torch.zeros(1, tokens, dtype=torch.int64), torch.tensor([3])
    yield "duration", PaddedDurationStage(model), {"ids": ids, "length": some, "ref_s": ref_s, "speed": torch.ones(1)}
    for name, frames in buckets.items():
        two = torch.tensor([2])
        spread = torch.zeros(1, hidden + STYLE, frames)
        yield f"prosody_{name}", PaddedProsody(model), {"en": spread, "ref_s": ref_s, "length": two}
        inputs = {
            "asr": torch.zeros(1, hidden, frames),
            "f0": torch.zeros(1, 2 * frames),
            "n": torch.zeros(1, 2 * frames),
            "s": torch.zeros(1, STYLE),
            "harmonic_noise": torch.zeros(1, frames * SAMPLES_PER_FRAME, HARMONICS),
            "length": two,
        }
        yield f"decoder_{name}", PaddedDecoderStage(model.decoder), inputs


def _copy(artifact: Artifact, part: str, folder: Path) -> str:
    """Copy an artefact under the name that integrators expect; return its path in `folder`."""
    if artifact.path is None:
        raise InputError(f"{artifact.backend} writes no file that could be delivered; use one that does.")
    place = folder / part
    shutil.copytree(artifact.folder, place, ignore=shutil.ignore_patterns(META, TAPS))
    named = place / f"kokoro_{part}{artifact.path.suffix}"
    (place / artifact.path.name).rename(named)
    return named.relative_to(folder).as_posix()
