"""Drawings of 06."""

from typing import Any

from kokoro_nb.reporting.curves import levels_at_joins
from kokoro_nb.reporting.show import drawn, drawn_together
from kokoro_nb.studies.two_stage_npu.integrator_snippets import Snippet
from kokoro_nb.studies.two_stage_npu.spoken_pieces import SpokenPieces


@drawn.register
def _joins(result: SpokenPieces, label: str, caption: str) -> Any:
    return levels_at_joins(result.audio, result.sr, result.joins, caption or "Level around the joins", label)


@drawn_together.register
def _snippets(first: Snippet, results: Any, label: str, caption: str) -> Any:
    from IPython.display import Markdown

    return Markdown("\n\n".join(f"**{one.file}**\n\n```{one.language.lower()}\n{one.source}```" for one in results))
