"""Drawings of 03."""

from typing import Any

from kokoro_nb.reporting.charts import heat_map
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.reporting.localisation_figures import slices_map
from kokoro_nb.studies.decoder_nan import PartsAlone, SlicesView


@drawn.register
def _slices(result: SlicesView, label: str, caption: str) -> Any:
    return slices_map(result.tap.value, result.slices.elements, caption or result.tap.name, label)


@drawn.register
def _parts(result: PartsAlone, label: str, caption: str) -> Any:
    backends = [row.backend for row in next(iter(result.parts.values()))]
    cells = [[row.eager32.of_peak if row.eager32 else float("nan") for row in rows] for rows in result.parts.values()]
    return heat_map(list(result.parts), backends, cells, caption or "Error of each part alone", label, "of peak", True)
