"""How soon a first part of the speech is ready, and whether parts join, with norms as they are and fixed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.imitated_precision import audio_of
from kokoro_nb.benchmarks.interleaved import DISTANCE, LIMIT, TimedProgram, in_turn, ratio, spread
from kokoro_nb.benchmarks.subjects import ROUNDS, decoder_inputs, export_each, frames_of
from kokoro_nb.errors import InputError
from kokoro_nb.listening.phrases import phrases
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models import stages
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLES_PER_FRAME
from kokoro_nb.models.fixed_norms import NormStatistics, fixed_norms, norm_statistics
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import part_of

BACKENDS = ("eager", "onnxruntime")
PART, AHEAD = 0.25, 0.25  # seconds of a first part, and of what is decoded behind it and thrown away
AROUND = (0.1, 0.15, 0.2, 0.25, 0.3)  # seconds on either side of each part
SENTENCES, SECONDS = 8, 2.0  # whose statistics the norms are given: other ones than what is timed
WHOLE, WHOLE_FIXED, FIRST, FIRST_FIXED = "whole", "whole, norms fixed", "first part", "first part, norms fixed"
SEAM = "seam (dB of peak)"


def statistics_of(kokoro: Kokoro, seed: int = 0) -> NormStatistics:
    """Return the statistics of the decoder's norms over `SENTENCES` of the project, in the model's default voice."""
    said = (decoder_inputs(kokoro, frames_of(SECONDS), seed, text) for text in phrases(SENTENCES))
    return norm_statistics(stages.FromHarStage(kokoro.model.decoder), said)


def measure(
    kokoro: Kokoro,
    length: float,
    statistics: NormStatistics,
    backends: Sequence[str] = BACKENDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    folder: str | Path | None = None,
) -> tuple[tuple[TimedProgram, ...], dict[str, str]]:
    """Time the decoder from `har` on the whole speech and on a first part, as it is and with fixed norms, in turn.

    The source is the whole's in all of them.

    Parameters
    ----------
    kokoro, length, backends, rounds, seed, limit, folder
        See `decoders.measure`; the length is more than `PART` and `AHEAD` together.
    statistics : NormStatistics
        That the norms are fixed with: see `statistics_of`.

    Returns
    -------
    tuple of TimedProgram, dict
        Backend by backend, each as a multiple of `WHOLE` on the same backend, with its log-spectral distance from the
        same samples of the whole in eager PyTorch; of a first part also the seam, its largest difference from the same
        samples of the whole with the same norms. And program -> why it is not among them.

    Raises
    ------
    InputError
        If the length is no good, or a backend is unknown.
    """
    first = frames_of(PART + AHEAD)
    if frames_of(length) <= first:
        raise InputError(f"{length:g} s have no first part of {PART:g} s; give more than {PART + AHEAD:g} s.")
    stage = stages.FromHarStage(kokoro.model.decoder)
    whole = decoder_inputs(kokoro, frames_of(length), seed)
    begun = part_of(whole, 0, first)
    inputs = {WHOLE: whole, WHOLE_FIXED: whole, FIRST: begun, FIRST_FIXED: begun}
    made, skipped = export_each(_exported(kokoro, stage, inputs, statistics), backends, folder)
    exact = {WHOLE: audio_of(stage, whole)[0]}
    with fixed_norms(stage, statistics):
        exact[WHOLE_FIXED] = audio_of(stage, whole)[0]
    rows = []
    for name in backends:
        there = [program for program in inputs if (name, program) in made]
        if WHOLE not in there:
            skipped |= {f"{name} {program}": f"There is no '{WHOLE}' to compare it with." for program in there}
            continue
        with quietly():
            loaded = {program: backend(name).load(made[name, program]) for program in there}
        calls = {program: partial(one.run, inputs[program]) for program, one in loaded.items()}
        times = in_turn(calls, rounds, limit)
        for program, call in calls.items():
            audio = call()["output"][0]
            figures: dict[str, Any] = {}
            if program in (FIRST, FIRST_FIXED):
                audio = audio[: frames_of(PART) * SAMPLES_PER_FRAME]
                figures[SEAM] = _decibels(audio, exact[WHOLE_FIXED if program == FIRST_FIXED else WHOLE])
            figures[DISTANCE] = log_spectral_distance(exact[WHOLE][: len(audio)], audio)
            compared = spread(times[program]), ratio(times[program], times[WHOLE])
            rows.append(TimedProgram(f"{name} {program}", length, *compared, None, WHOLE, figures))
    return tuple(rows), skipped


def _exported(
    kokoro: Kokoro, stage: nn.Module, inputs: Mapping[str, Arrays], statistics: NormStatistics
) -> Iterator[tuple[str, Exported | Failure, Arrays]]:
    for program, given in inputs.items():
        fixed = fixed_norms(stage, statistics) if program in (WHOLE_FIXED, FIRST_FIXED) else nullcontext()
        with fixed, patched(kokoro.model, EXPORT_PATCHES):
            exported = export_program(stage, given)
        yield program, exported, given


def joins(
    kokoro: Kokoro, length: float, statistics: NormStatistics, seed: int = 0, around: Sequence[float] = AROUND
) -> list[dict[str, float]]:
    """Decode the speech part by part with fixed norms in eager PyTorch, and compare the joined parts with the whole.

    Parameters
    ----------
    kokoro, length, statistics, seed
        See `measure`.
    around : sequence of float
        Seconds that are decoded on either side of each part and thrown away, where there are any.

    Returns
    -------
    list of dict
        For each of them the largest difference in all of the speech, dB of peak, and how many frames are decoded for
        each that is heard.
    """
    stage, rows = stages.FromHarStage(kokoro.model.decoder), []
    whole = decoder_inputs(kokoro, frames_of(length), seed)
    with fixed_norms(stage, statistics):
        exact = audio_of(stage, whole)[0]
        for each in around:
            audio, decoded = _joined(stage, whole, frames_of(PART), round(each * FRAMES_PER_SECOND))
            row = {"decoded on either side (s)": each, SEAM: _decibels(audio, exact)}
            rows.append({**row, "frames decoded for each heard": decoded * SAMPLES_PER_FRAME / len(exact)})
    return rows


def _joined(stage: nn.Module, whole: Mapping[str, Tensor], part: int, around: int) -> tuple[np.ndarray, int]:
    """Return the audio of all parts, each decoded with `around` frames on either side, and how many were decoded."""
    frames, pieces, decoded = whole["asr"].shape[-1], [], 0
    for start in range(0, frames, part):
        first, last = max(0, start - around), min(frames, start + part + around)
        audio = audio_of(stage, part_of(whole, first, last - first))[0]
        begin, end = start - first, min(start + part, frames) - first
        pieces.append(audio[begin * SAMPLES_PER_FRAME : end * SAMPLES_PER_FRAME])
        decoded += last - first
    return np.concatenate(pieces), decoded


def _decibels(audio: np.ndarray, whole: np.ndarray) -> float:
    """Return the largest difference from the same samples of the whole, in dB of the whole's peak."""
    most, peak = np.max(np.abs(audio - whole[: len(audio)])), np.max(np.abs(whole))
    return float(20 * np.log10(np.maximum(most, np.finfo(np.float32).tiny) / peak))
