"""The drawings of results that only one study has, by the study's number; `show` imports them when needed."""

from typing import Any

from kokoro_nb.benchmarks.profiles import Profile, shares
from kokoro_nb.benchmarks.timed_programs import DecoderTimes
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.reporting import figures
from kokoro_nb.reporting.drawings import drawn, drawn_together
from kokoro_nb.reporting.style import compact
from kokoro_nb.studies.padding import PaddedRun
from kokoro_nb.studies.patching import PatchEffects
from kokoro_nb.studies.two_stage_npu.agreement import SpokenPieces
from kokoro_nb.studies.validate_steps import StepErrors
from kokoro_nb.studies.waveform_spectrum import SignalView
from kokoro_nb.traces.statistics import compare


@drawn.register
def _effects(result: PatchEffects, label: str, caption: str) -> Any:
    """01: what each patch changes."""
    changes = {name: one.of_peak for name, one in result.changes.items()}
    return figures.log_bars(changes, "of peak", caption or "Effect of each patch", label)


@drawn.register
def _view(result: SignalView, label: str, caption: str) -> Any:
    """04: versions of one utterance."""
    if result.kind == "f0":
        signals = dict(zip(result.names, result.signals, strict=True))
        return figures.f0_contours(signals, SAMPLE_RATE, caption or "Fundamental frequency", label)
    (first, second), names = result.signals, (result.names[0], result.names[1])
    return figures.spectrograms(first, second, SAMPLE_RATE, names, caption or "STFT spectrograms", label)


@drawn.register
def _joins(result: SpokenPieces, label: str, caption: str) -> Any:
    """06: the level around joins."""
    return figures.levels_at_joins(result.audio, result.sr, result.joins, caption or "Level around the joins", label)


@drawn_together.register
def _correlation(first: PaddedRun, results: Any, label: str, caption: str) -> Any:
    """09: naive padding by noise and buffer, and one run as spectrograms."""
    cells: dict[str, dict[str, float | str]] = {}
    for run in results:
        cells.setdefault(run.kind, {})[f"{run.bucket} frames"] = 1 - compare(run.plain, run.naive).correlation
    return figures.heat_map(cells, caption, label, log=True)


@drawn.register
def _spectrograms(result: PaddedRun, label: str, caption: str) -> Any:
    names = ("without padding", f"in {result.bucket} frames")
    title = caption or f"Noise '{result.kind}': {result.frames} valid frames"
    return figures.spectrograms(result.plain, result.naive, SAMPLE_RATE, names, title, label)


@drawn.register
def _steps(result: StepErrors, label: str, caption: str) -> Any:
    """13: the error of each step, by itself and in the chain, on each runtime."""
    cells: dict[str, dict[str, float | str]] = {}
    for name, steps in result.found.items():
        for step in steps:
            row = cells.setdefault(f"{step.step}: {step.output}", {})
            for kind, parity in (("own", step.own), ("chained", step.chained)):
                row[f"{name}: {kind}"] = "fail" if parity is None else parity.of_peak
    return figures.heat_map(cells, caption or "Error of each step against eager float64", label, "of peak", log=True)


@drawn.register
def _times(result: DecoderTimes, label: str, caption: str) -> Any:
    """19: the time of each program as a bar with its quartiles."""
    values = {row.program: row.seconds.median for row in result.rows}
    notes = {row.program: f"{compact(row.real_time)} x real time" for row in result.rows}
    spreads = {row.program: (row.seconds.low, row.seconds.high) for row in result.rows}
    title = caption or f"Decoder from har, {result.decoder.length:g} s"
    return figures.log_bars(values, "seconds of a call: median, quartiles", title, label, notes, spreads)


@drawn_together.register
def _family_shares(first: Profile, results: Any, label: str, caption: str) -> Any:
    """Draw the share of each family of operators in the time of each program."""
    parts = {name: shares(each.seconds) for name, each in results.items()}
    families = dict.fromkeys(family for part in parts.values() for family in part)
    cells: dict[str, dict[str, float | str]] = {}
    for name, part in parts.items():
        cells[name] = {family: 100 * part.get(family, 0.0 if part else float("nan")) for family in families}
    return figures.heat_map(cells, caption or "Where the time goes", label, "share of the time in operators (%)")
