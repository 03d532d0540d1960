"""How a result is shown, found by its type: `shown` returns the figure, the table or the player that stands for it.

Results of the package's general parts are drawn in `kokoro_nb.reporting.drawings`. What only one study has is drawn in
`kokoro_nb.reporting.study_drawings`. Either is imported when such a result is shown for the first time.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from kokoro_nb.markup import table

STUDIES = ("kokoro_nb.studies.", "kokoro_nb.benchmarks.")  # whose results study_drawings draws


def shown(result: Any, label: str = "", caption: str = "") -> Any:
    """Return what stands for `result`: a matplotlib figure, a `Fragment`, or what a notebook shows by itself.

    Parameters
    ----------
    result : object
        A result with a drawing of its own; a list of results, or a mapping of names to results, all of one type; a
        list of rows (mappings of column to value), which becomes a table; a mapping of names to such rows, which
        becomes a heat map. What has no drawing and can be a row, through ``as_dict`` or as a dataclass of plain
        values, becomes a table. Figures, fragments and whatever IPython shows by itself are returned as they are.
    label : str
        Label of the weights that it was measured on.
    caption : str
        Heading; each drawing has one of its own.

    Raises
    ------
    NoDrawingError
        If nothing is registered for the type, and it is no row.
    """
    from kokoro_nb.reporting.drawings import drawn, drawn_together

    members = list(result.values()) if isinstance(result, Mapping) else result
    several = isinstance(members, list | tuple)
    if result is None or (several and not members):
        return table([], caption)
    first = members[0] if several and members else result
    if any(kind.__module__.startswith(STUDIES) for kind in type(first).__mro__):
        import_module("kokoro_nb.reporting.study_drawings")
    return drawn_together(first, result, label, caption) if several else drawn(result, label, caption)


def displayed(result: Any) -> bool:
    """Display `result` in the cell that is running, and return whether there is one."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return False
    ipython.display.display(result)
    return True


def without_failures(result: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return `result` without what failed or is absent in it, and a row for each of these."""
    from kokoro_nb.backends.base import Failure
    from kokoro_nb.reporting.drawings import is_plain

    if isinstance(result, Failure):
        return None, [result.as_dict()]
    listed = isinstance(result, list | tuple)
    members: Any = result.items() if isinstance(result, Mapping) else enumerate(result) if listed else ()
    failed = [pair for pair in members if pair[1] is None or isinstance(pair[1], Failure)]
    if not failed or (isinstance(result, Mapping) and all(map(is_plain, result.values()))):
        return result, []
    names = {name for name, _ in failed}
    rows = [{"name": name} | ({"outcome": "absent"} if one is None else one.as_dict()) for name, one in failed]
    if listed:
        return [one for place, one in enumerate(result) if place not in names], rows
    return {name: one for name, one in result.items() if name not in names}, rows
