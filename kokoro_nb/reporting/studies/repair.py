"""14 drawn: what each patch is for on each runtime."""

from typing import TYPE_CHECKING

from kokoro_nb.reporting.charts import heat_map
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.studies.repair.uses import Uses

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@drawn.register(Uses)
def _uses(result: Uses, label: str, caption: str) -> "Figure":
    rows, columns = result.rows(), [one.backend for one in result.repairs]
    cells = [[row[name] for name in columns] for row in rows]
    return heat_map([row["patch"] for row in rows], columns, cells, caption or "What each patch is for", label)
