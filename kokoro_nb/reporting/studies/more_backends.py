"""Drawings of 23."""

from typing import Any

from kokoro_nb.reporting.charts import heat_map
from kokoro_nb.reporting.show import drawn_together
from kokoro_nb.studies.more_backends.rungs import RUNGS, Ladder


@drawn_together.register
def _ladders(first: Ladder, results: Any, label: str, caption: str) -> Any:
    cells = [[rung.cell for rung in ladder.rungs] for ladder in results]
    backends = [ladder.backend for ladder in results]
    return heat_map(backends, RUNGS, cells, caption or "Error on each rung", label, "of the peak", log=True)
