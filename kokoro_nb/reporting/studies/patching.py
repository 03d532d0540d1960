"""Drawings of 01."""

from typing import Any

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.reporting import charts, curves
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.studies.patching.conditioning import NoiseKinds
from kokoro_nb.studies.patching.patch_effects import PatchEffects


@drawn.register
def _effects(result: PatchEffects, label: str, caption: str) -> Any:
    changes = {one.patch: one.change.of_peak for one in result.effects}
    return charts.patch_effects(changes, "of peak", caption or "Effect of each patch", label)


@drawn.register
def _kinds(result: NoiseKinds, label: str, caption: str) -> Any:
    added = {kind: one.added for kind, one in result.kinds.items()}
    return curves.average_spectra(added, SAMPLE_RATE, caption or "Noise as added", label)
