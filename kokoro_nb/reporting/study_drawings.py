"""The drawings of results that only one study has, by the study's number; `show` imports them when needed."""

from typing import Any

import numpy as np

from kokoro_nb.benchmarks.work import shares
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.reporting import figures
from kokoro_nb.reporting.charts import heat_map, log_bars
from kokoro_nb.reporting.drawings import drawn
from kokoro_nb.reporting.style import (
    CANDIDATES,
    DIFFERENCE,
    INK,
    ON_WHITE,
    REFERENCE,
    compact,
    new_figure,
)
from kokoro_nb.studies.benchmarks import DecoderBenchmark, Profiles
from kokoro_nb.studies.padding.padded_decoder import PaddedRun, PaddedRuns
from kokoro_nb.studies.patching.conditioning import NoiseKinds
from kokoro_nb.studies.patching.patch_effects import PatchEffects
from kokoro_nb.studies.two_stage_npu.spoken_pieces import SpokenPieces
from kokoro_nb.studies.validate_steps import StepsOnRuntimes
from kokoro_nb.studies.waveform_spectrum import BandEnergies, SignalView

_TITLES = {
    "waveforms": "Waveforms",
    "mel": "Mel spectrograms",
    "stft": "STFT spectrograms",
    "f0": "Fundamental frequency",
}

_HATCHES = ("", "//", "..")
_COLOURS = (REFERENCE, *CANDIDATES, DIFFERENCE)


@drawn.register
def _effects(result: PatchEffects, label: str, caption: str) -> Any:
    """01: what each patch changes."""
    changes = {one.patch: one.change.of_peak for one in result.effects}
    return log_bars(changes, "of peak", caption or "Effect of each patch", label)


@drawn.register
def _kinds(result: NoiseKinds, label: str, caption: str) -> Any:
    added = {kind: one.added for kind, one in result.kinds.items()}
    return figures.average_spectra(added, SAMPLE_RATE, caption or "Noise as added", label)


@drawn.register
def _bands(result: BandEnergies, label: str, caption: str) -> Any:
    """04: versions of one utterance."""
    return figures.band_energy_bars(result.ratios, caption or f"Band energy against {result.reference}", label)


@drawn.register
def _view(result: SignalView, label: str, caption: str) -> Any:
    title = caption or _TITLES[result.kind]
    if result.kind == "f0":
        return figures.f0_contours(dict(zip(result.names, result.signals, strict=True)), SAMPLE_RATE, title, label)
    (first, second), names = result.signals, (result.names[0], result.names[1])
    if result.kind == "waveforms":
        return figures.waveforms(first, second, SAMPLE_RATE, names, title, label)
    return figures.spectrograms(result.kind, first, second, SAMPLE_RATE, names, title, label)


@drawn.register
def _joins(result: SpokenPieces, label: str, caption: str) -> Any:
    """06: the level around joins."""
    return figures.levels_at_joins(result.audio, result.sr, result.joins, caption or "Level around the joins", label)


@drawn.register
def _correlation(result: PaddedRuns, label: str, caption: str) -> Any:
    """09: naive padding by noise and buffer, and one run as spectrograms."""
    cells: dict[str, dict[str, float | str]] = {}
    for run in result.runs:
        cells.setdefault(run.kind, {})[f"{run.bucket} frames"] = 1 - run.leaking.correlation
    title = caption or "Naive padding: 1 - correlation of the valid audio with the unpadded"
    return heat_map(cells, title, label, log=True)


@drawn.register
def _spectrograms(result: PaddedRun, label: str, caption: str) -> Any:
    names = ("without padding", f"in {result.bucket} frames")
    title = caption or f"Noise '{result.kind}': {result.frames} valid frames"
    return figures.spectrograms("stft", result.plain, result.naive, SAMPLE_RATE, names, title, label)


@drawn.register
def _steps(result: StepsOnRuntimes, label: str, caption: str) -> Any:
    """13: the error of each step, by itself and in the chain, on each runtime."""
    cells: dict[str, dict[str, float | str]] = {}
    for name, steps in {"eager": result.floor, **result.found}.items():
        for step in steps:
            row = cells.setdefault(f"{step.step}: {step.output}", {})
            for kind, parity in (("own", step.own), ("chained", step.chained)):
                row[f"{name}: {kind}"] = "fail" if parity is None else parity.of_peak
    return heat_map(cells, caption or "Error of each step against eager float64", label, "of peak", log=True)


@drawn.register
def _times_over_floor(result: DecoderBenchmark, label: str, caption: str) -> Any:
    """19: the time of each program as a bar with its quartiles, and the floors as lines.

    Raises
    ------
    InputError
        If nothing was measured.
    """
    rows, floors = result.rows, result.times.floors
    if not rows:
        raise InputError("There are no times to draw; measure one program at least.")
    return log_bars(
        {row.program: row.seconds.median for row in rows},
        "seconds of a call: median, quartiles",
        caption or f"Decoder from har, {result.length:g} s",
        label,
        {row.program: f"{compact(row.real_time)} x real time" for row in rows},
        {row.program: (row.seconds.low, row.seconds.high) for row in rows},
        {"floor": floors["least"], "floor, operators apart": floors["separate"]},
    )


@drawn.register
def _family_shares(result: Profiles, label: str, caption: str) -> Any:
    """For each program one bar, divided by the share of each family in its time.

    Raises
    ------
    InputError
        If there is no program, or one took no time.
    """
    seconds = {name: each.seconds for name, each in result.known.items()}
    if not seconds or not all(map(shares, seconds.values())):
        raise InputError("There are no times to divide; profile one program at least.")
    families = list(dict.fromkeys(name for each in seconds.values() for name in each))
    parts, left = [shares(each) for each in seconds.values()], np.zeros(len(seconds))
    with new_figure(1.7 + 0.35 * len(seconds), caption or "Where the time goes", label) as figure:
        axes = figure.subplots()
        for place, name in enumerate(families):
            share = np.array([100 * part.get(name, 0.0) for part in parts])
            look: dict[str, Any] = {"color": _COLOURS[place % len(_COLOURS)], "hatch": _HATCHES[place // len(_COLOURS)]}
            bars = axes.barh(range(len(seconds)), share, 0.62, left, edgecolor="white", label=name, **look)
            texts = [f"{each:.0f}" if each >= 6 else "" for each in share]
            for text in axes.bar_label(bars, texts, label_type="center", color=INK):
                text.set_bbox(ON_WHITE if text.get_text() else None)
            left += share
        axes.set_yticks(range(len(seconds)), list(seconds))
        axes.set(xlim=(0, 100), ylim=(len(seconds) - 0.5, -0.5), xlabel="share of the time in operators (%)")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper right", ncols=4)
    return figure
