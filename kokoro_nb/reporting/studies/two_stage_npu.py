"""Drawings of 06."""

from typing import Any

from kokoro_nb.reporting.curves import levels_at_joins
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.studies.two_stage_npu.spoken_pieces import SpokenPieces


@drawn.register
def _joins(result: SpokenPieces, label: str, caption: str) -> Any:
    return levels_at_joins(result.audio, result.sr, result.joins, caption or "Level around the joins", label)
