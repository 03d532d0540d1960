"""The decoder as Core ML files: by two routes, in two precisions, in float16 operator by operator, and mended."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import Route
from kokoro_nb.backends.mil.saved_program import operator_types
from kokoro_nb.inspection.procedure import diagnose
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.precision.degradation import Lens
from kokoro_nb.locate.precision.keep_float32 import PrecisionRepair, repair
from kokoro_nb.locate.precision.lens import lens
from kokoro_nb.models import stages, steps
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

ROUTES: tuple[Route, ...] = ("export", "traced program")
WIDTHS = {"float32": CoreMl("coreml-float32", precision="float32"), "float16": CoreMl("coreml")}


@dataclass(frozen=True, eq=False)
class Conversions:
    """The decoder from `har` on, converted by each route in each precision.

    Attributes
    ----------
    made : dict of str to Artifact or Failure
        By route and precision: ``export, float32``.
    no_runtime : str
        Why Core ML itself predicts nothing here; empty if it does.
    """

    made: Mapping[str, Artifact | Failure]
    no_runtime: str

    def failure(self, name: str) -> str | None:
        """Return the error of a conversion; None if it was made."""
        found = self.made[name]
        return str(found) if isinstance(found, Failure) else None

    def types(self, name: str = "export, float32") -> dict[str, int]:
        """Return how often each type of operator stands in the saved file; nothing where it was not converted."""
        artifact = self.made[name]
        if isinstance(artifact, Failure):
            return {}
        assert artifact.path is not None
        return _types(artifact.path)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each conversion that was made."""
        return [
            {
                "route": name,
                "operators": sum(self.types(name).values()),
                "types": len(self.types(name)),
                "size (MB)": artifact.size / 1e6,
                "seconds": sum(artifact.seconds.values()),
            }
            for name, artifact in self.made.items()
            if isinstance(artifact, Artifact)
        ]


def convert_decoder(kokoro: Kokoro, case: Case, frames: int) -> Conversions:
    """Convert the first `frames` frames of the decoder from `har` on, with all export patches, to Core ML."""
    decoder = kokoro.model.decoder
    converters = {f"{way}, {width}": replace(one, route=way) for way in ROUTES for width, one in WIDTHS.items()}
    with patched(kokoro.model, EXPORT_PATCHES):
        inputs = stages.from_har_inputs(decoder, case.decoder_inputs(frames))
        made = {name: one.export(stages.FromHarStage(decoder), inputs) for name, one in converters.items()}
    return Conversions(made, converters["export, float32"].executes() or "")


def float16_lens(kokoro: Kokoro, case: Case, frames: int) -> Lens:
    """Measure what float16 does to each operator of the whole decoder: see `locate.precision.lens`."""
    with patched(kokoro.model, EXPORT_PATCHES):
        return lens(stages.DecoderStage(kokoro.model.decoder), case.decoder_inputs(frames))


@dataclass(frozen=True, eq=False)
class SourcePrecision:
    """What float16 does to the harmonic source, as the diagnosis, the profile and the search for a set name it.

    Attributes
    ----------
    diagnosis : Diagnosis
        Of the float16 file, its remedies applied.
    profile : Lens
        Of the same file: see `locate.precision.lens`.
    mended : PrecisionRepair
        The smallest set of operators that have to stay float32, made from what the diagnosis keeps in float32.
    """

    diagnosis: Diagnosis
    profile: Lens
    mended: PrecisionRepair

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each operator that one of the three names, in the order of execution."""
        ranked = {one.tap.name: (place, one) for place, one in enumerate(self.diagnosis.ranked, 1) if one.tap}
        begins = {row.name: row.cause for row in self.profile.sources}
        rows = []
        for name in dict.fromkeys(row.name for row in self.profile.rows):
            if name in ranked or name in begins or name in self.mended.kept:
                place, culprit = ranked.get(name, (None, None))
                rows.append(
                    {
                        "operator": name,
                        "rank in the diagnosis": place,
                        "its rounding alone (of peak)": None if culprit is None else culprit.alone,
                        "mechanism": "" if culprit is None else culprit.mechanism.name,
                        "leaves the noise floor by": begins.get(name, ""),
                        "stays float32": name in self.mended.kept,
                    }
                )
        return rows

    @property
    def cured(self) -> float:
        """Error of the output with the diagnosis's own float32 operators, of the peak; NaN where there are none."""
        errors = (one.error_after for one in self.diagnosis.remedies if one.kind == "float32 operators")
        return next(errors, float("nan"))

    @property
    def apart(self) -> tuple[str, ...]:
        """Operators that the diagnosis names, or at which the profile begins, and that need not stay float32."""
        named = (
            *(one.tap.name for one in self.diagnosis.ranked if one.tap),
            *(row.name for row in self.profile.sources),
        )
        return tuple(name for name in dict.fromkeys(named) if name not in self.mended.kept)


def source_precision(kokoro: Kokoro, case: Case, frames: int, tolerance: float, shrink: bool) -> SourcePrecision:
    """Diagnose the harmonic source in float16, profile it, and find the operators of it that have to stay float32.

    Parameters
    ----------
    kokoro, case, frames
        The model, the run, and how many frames of it.
    tolerance, shrink
        As for `locate.precision.keep_float32.repair`.
    """
    inputs = case.decoder_inputs(frames)
    pitch = {name: inputs[name] for name in ("f0", "harmonic_noise")}
    with patched(kokoro.model, EXPORT_PATCHES):
        source = steps.ExcitationStep(kokoro.model.decoder.generator)
        diagnosis = diagnose(source, pitch, "coreml-reference", remedies=True)
        kept = [one.name.split(", ") for one in diagnosis.remedies if one.kind == "float32 operators"]
        mended = repair(source, pitch, tolerance, shrink=shrink, start=kept[0] if kept else ())
        return SourcePrecision(diagnosis, lens(source, pitch), mended)


@cache
def _types(path: Path) -> dict[str, int]:
    return dict(operator_types(path))
