"""13 drawn: the error of each step, by itself and in the chain, on each runtime."""

from typing import TYPE_CHECKING

from kokoro_nb.reporting.charts import heat_map
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.studies.validate_steps import StepsOnRuntimes
from kokoro_nb.traces.parity import Parity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@drawn.register(StepsOnRuntimes)
def _errors(result: StepsOnRuntimes, label: str, caption: str) -> "Figure":
    steps = {"eager": result.floor, **result.found}
    columns = [f"{name}: {kind}" for name in steps for kind in ("own", "chained")]
    rows = zip(*steps.values(), strict=True)
    cells = [[_cell(parity) for step in row for parity in (step.own, step.chained)] for row in rows]
    names = [f"{step.step}: {step.output}" for step in result.floor]
    return heat_map(
        names, columns, cells, caption or "Error of each step against eager float64", label, "of peak", log=True
    )


def _cell(parity: Parity | None) -> float | str:
    return "fail" if parity is None else parity.of_peak
