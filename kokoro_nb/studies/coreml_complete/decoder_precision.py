"""The decoder as Core ML files: by two routes, in two precisions, in float16 operator by operator, and mended."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.mil.saved_program import operator_types
from kokoro_nb.locate.precision import keep_float32 as search
from kokoro_nb.locate.precision.degradation import Lens
from kokoro_nb.locate.precision.lens import lens
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

ROUTES: tuple[Literal["export", "trace"], ...] = ("export", "trace")
WIDTHS: tuple[Literal["float32", "float16"], ...] = ("float32", "float16")


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
    converters = {f"{way}, {width}": CoreMl("coreml", route=way, precision=width) for way in ROUTES for width in WIDTHS}
    with patched(kokoro.model, EXPORT_PATCHES):
        inputs = stages.from_har_inputs(decoder, case.decoder_inputs(frames))
        made = {name: one.export(stages.FromHarStage(decoder), inputs) for name, one in converters.items()}
    return Conversions(made, converters["export, float32"].executes() or "")


def float16_lens(kokoro: Kokoro, case: Case, frames: int) -> Lens:
    """Measure what float16 does to each operator of the whole decoder: see `locate.precision.lens`."""
    with patched(kokoro.model, EXPORT_PATCHES):
        return lens(stages.DecoderStage(kokoro.model.decoder), case.decoder_inputs(frames))


def keep_float32(kokoro: Kokoro, case: Case, frames: int, tolerance: float, shrink: bool) -> search.PrecisionRepair:
    """Find the operators of the harmonic source that have to stay float32: see `locate.precision.keep_float32`."""
    inputs = case.decoder_inputs(frames)
    pitch = {name: inputs[name] for name in ("f0", "harmonic_noise")}
    with patched(kokoro.model, EXPORT_PATCHES):
        return search.repair(stages.ExcitationStage(kokoro.model.decoder), pitch, tolerance, shrink=shrink)


@cache
def _types(path: Path) -> dict[str, int]:
    return dict(operator_types(path))
