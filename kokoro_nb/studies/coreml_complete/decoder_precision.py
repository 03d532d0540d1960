"""The decoder as Core ML files: by two routes, in two precisions, and its harmonic source."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import Route
from kokoro_nb.backends.exported import as_exported
from kokoro_nb.backends.mil import operator_types
from kokoro_nb.locate.remedies import Remedy
from kokoro_nb.locate.trials import mixed_precision
from kokoro_nb.models import stages
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


@dataclass(frozen=True, eq=False)
class HarmonicSource:
    """The harmonic source with all export patches, and its inputs: what a diagnosis is asked about.

    Attributes
    ----------
    program : Exported or Failure
        The source, or why it cannot be exported.
    inputs : dict
        Name -> tensor.
    """

    program: Any
    inputs: Mapping[str, Tensor]

    def code(self, cure: Remedy) -> str:
        """Return as Python to paste, for a plain `coremltools.convert`, which operators a remedy keeps in float32."""
        return str(mixed_precision(self.program, self.inputs, cure.name.split(", "), None).as_code())


def harmonic_source(kokoro: Kokoro, case: Case, frames: int) -> HarmonicSource:
    """Return the harmonic source for `frames` frames."""
    inputs = {name: case.decoder_inputs(frames)[name] for name in ("f0", "harmonic_noise")}
    source = stages.ExcitationStep(kokoro.model.decoder.generator)
    with patched(kokoro.model, EXPORT_PATCHES):
        return HarmonicSource(as_exported(source, inputs, "coreml"), inputs)


@cache
def _types(path: Path) -> dict[str, int]:
    return dict(operator_types(path))
