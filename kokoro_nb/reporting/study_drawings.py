"""The drawings of results that only one study has, by the study's number; `show` imports them when needed."""

from typing import Any

from kokoro_nb.benchmarks.work import shares
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.reporting import charts, figures
from kokoro_nb.reporting.charts import heat_map
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.reporting.localisation_figures import slices_map
from kokoro_nb.reporting.style import CANDIDATES, DIFFERENCE, FAULT, INK, ON_WHITE, REFERENCE, compact, new_figure
from kokoro_nb.studies.benchmarks import DecoderBenchmark, Profiles
from kokoro_nb.studies.decoder_nan import PartsAlone, SlicesView
from kokoro_nb.studies.padding.padded_decoder import PaddedRun, PaddedRuns
from kokoro_nb.studies.patching.conditioning import NoiseKinds
from kokoro_nb.studies.patching.patch_effects import PatchEffects
from kokoro_nb.studies.repair.uses import Uses
from kokoro_nb.studies.two_stage_npu.spoken_pieces import SpokenPieces
from kokoro_nb.studies.validate_steps import StepsOnRuntimes
from kokoro_nb.studies.waveform_spectrum import BandEnergies, SignalView

_PAIRS: dict[str, tuple[Any, str]] = {
    "waveforms": (figures.waveforms, "Waveforms"),
    "mel": (figures.mel_spectrograms, "Mel spectrograms"),
    "stft": (figures.stft_spectrograms, "STFT spectrograms"),
}
_HATCHES = ("", "//", "..")
_COLOURS = (REFERENCE, *CANDIDATES, DIFFERENCE)


@drawn.register
def _effects(result: PatchEffects, label: str, caption: str) -> Any:
    """01: what each patch changes."""
    changes = {one.patch: one.change.of_peak for one in result.effects}
    return charts.patch_effects(changes, "of peak", caption or "Effect of each patch", label)


@drawn.register
def _kinds(result: NoiseKinds, label: str, caption: str) -> Any:
    added = {kind: one.added for kind, one in result.kinds.items()}
    return charts.average_spectra(added, SAMPLE_RATE, caption or "Noise as added", label)


@drawn.register
def _slices(result: SlicesView, label: str, caption: str) -> Any:
    """03: what slices meet of a fault, and each part alone."""
    return slices_map(result.tap.value, result.slices.elements, caption or result.tap.name, label)


@drawn.register
def _parts(result: PartsAlone, label: str, caption: str) -> Any:
    backends = [row.backend for row in next(iter(result.parts.values()))]
    cells = [[row.eager32.of_peak if row.eager32 else float("nan") for row in rows] for rows in result.parts.values()]
    return heat_map(list(result.parts), backends, cells, caption or "Error of each part alone", label, "of peak", True)


@drawn.register
def _bands(result: BandEnergies, label: str, caption: str) -> Any:
    """04: versions of one utterance."""
    return figures.band_energy_bars(result.ratios, caption or f"Band energy against {result.reference}", label)


@drawn.register
def _view(result: SignalView, label: str, caption: str) -> Any:
    if result.kind == "f0":
        signals = dict(zip(result.names, result.signals, strict=True))
        return charts.f0_contours(signals, SAMPLE_RATE, caption or "Fundamental frequency", label)
    draw, title = _PAIRS[result.kind]
    return draw(*result.signals, SAMPLE_RATE, result.names, caption or title, label)


@drawn.register
def _joins(result: SpokenPieces, label: str, caption: str) -> Any:
    """06: the level around joins."""
    return charts.levels_at_joins(result.audio, result.sr, result.joins, caption or "Level around the joins", label)


@drawn.register
def _correlation(result: PaddedRuns, label: str, caption: str) -> Any:
    """09: naive padding by noise and buffer, and one run as spectrograms."""
    kinds, buckets = (list(dict.fromkeys(getattr(run, key) for run in result.runs)) for key in ("kind", "bucket"))
    cells = [[1 - result.run(kind, bucket).leaking.correlation for bucket in buckets] for kind in kinds]
    title = caption or "Naive padding: 1 - correlation of the valid audio with the unpadded"
    return heat_map(kinds, [f"{bucket} frames" for bucket in buckets], cells, title, label, log=True)


@drawn.register
def _spectrograms(result: PaddedRun, label: str, caption: str) -> Any:
    names = ("without padding", f"in {result.bucket} frames")
    title = caption or f"Noise '{result.kind}': {result.frames} valid frames"
    return figures.stft_spectrograms(result.plain, result.naive, SAMPLE_RATE, names, title, label)


@drawn.register
def _steps(result: StepsOnRuntimes, label: str, caption: str) -> Any:
    """13: the error of each step, by itself and in the chain, on each runtime."""
    steps = {"eager": result.floor, **result.found}
    columns = [f"{name}: {kind}" for name in steps for kind in ("own", "chained")]
    rows = zip(*steps.values(), strict=True)
    parities = [[parity for step in row for parity in (step.own, step.chained)] for row in rows]
    cells = [["fail" if parity is None else parity.of_peak for parity in row] for row in parities]
    names = [f"{step.step}: {step.output}" for step in result.floor]
    title = caption or "Error of each step against eager float64"
    return heat_map(names, columns, cells, title, label, "of peak", log=True)


@drawn.register
def _uses(result: Uses, label: str, caption: str) -> Any:
    """14: what each patch is for on each runtime."""
    rows, columns = result.rows(), [one.backend for one in result.repairs]
    cells = [[row[name] for name in columns] for row in rows]
    return heat_map([row["patch"] for row in rows], columns, cells, caption or "What each patch is for", label)


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
    with new_figure(1.3 + 0.3 * len(rows), caption or f"Decoder from har, {result.length:g} s", label) as figure:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.grid(axis="x")
        left = min(floors["least"], *(row.seconds.low for row in rows)) / 1.5
        for place, row in enumerate(rows):
            low, middle, high = row.seconds.low, row.seconds.median, row.seconds.high
            axes.barh(place, middle - left, left=left, height=0.62, color=REFERENCE)
            axes.plot([low, high], [place, place], color=INK, linewidth=1.5)
            charts.beside(axes, high, place, f"{compact(row.real_time)} x real time")
        for name, look, seconds in (
            ("floor", "--", floors["least"]),
            ("floor, operators apart", ":", floors["separate"]),
        ):
            axes.axvline(seconds, color=FAULT, linestyle=look, linewidth=1.2, label=name)
        axes.set_yticks(range(len(rows)), [row.program for row in rows])
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(left, 4 * max(row.seconds.high for row in rows)))
        axes.set_xlabel("seconds of a call: median, quartiles")
        axes.tick_params(axis="y", length=0)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    return figure


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
    with new_figure(1.7 + 0.35 * len(seconds), caption or "Where the time goes", label) as figure:
        axes = figure.subplots()
        for place, each in enumerate(seconds.values()):
            left, part = 0.0, shares(each)
            for number, name in enumerate(families):
                share = 100 * part.get(name, 0.0)
                hatch, colour = _HATCHES[number // len(_COLOURS)], _COLOURS[number % len(_COLOURS)]
                look: dict[str, Any] = {"color": colour, "hatch": hatch, "label": None if place else name}
                axes.barh(place, share, left=left, height=0.62, edgecolor="white", **look)
                if share >= 6:
                    text: dict[str, Any] = {"ha": "center", "va": "center", "color": INK, "bbox": ON_WHITE}
                    axes.text(left + share / 2, place, f"{share:.0f}", **text)
                left += share
        axes.set_yticks(range(len(seconds)), list(seconds))
        axes.set(xlim=(0, 100), ylim=(len(seconds) - 0.5, -0.5), xlabel="share of the time in operators (%)")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper right", ncols=4)
    return figure
