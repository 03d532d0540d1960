"""12 drawn: the verdict on the first block, by patches and version."""

from typing import TYPE_CHECKING

from kokoro_nb.reporting.charts import heat_map
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.studies.executorch_0_7.replay_tables import Controls

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@drawn.register(Controls)
def _controls(result: Controls, label: str, caption: str) -> "Figure":
    columns = list(next(iter(result.verdicts.values())))
    cells = [
        [f"{'pass' if verdict == 'right' else 'fail'}: {verdict}" for verdict in row.values()]
        for row in result.verdicts.values()
    ]
    return heat_map(list(result.verdicts), columns, cells, caption or "The first block, by patches and version", label)
