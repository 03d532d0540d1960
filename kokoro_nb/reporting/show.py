"""How a result is shown, found by its type: `shown` returns the figure, the table or the player that stands for it.

What only one study has is drawn in `kokoro_nb.reporting.studies`, in the module that is named after the study; it
is imported when a result of that study is shown for the first time.
"""

from collections.abc import Mapping
from functools import singledispatch
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment, table

STUDIES = "kokoro_nb.studies."
DRAWINGS = "kokoro_nb.reporting.studies."


def shown(result: Any, label: str = "", caption: str = "") -> Any:
    """Return what stands for `result`: a matplotlib figure, a `Fragment`, or a sequence of these.

    Parameters
    ----------
    result : object
        A sequence of mappings becomes a table; a figure or a fragment is returned as it is; for everything else a
        drawing is registered by type.
    label : str
        Label of the weights that it came from.
    caption : str
        Heading; each drawing has one of its own.

    Raises
    ------
    InputError
        If nothing is registered for the type.
    """
    for kind in type(result).__mro__:
        if kind.__module__.startswith(STUDIES):
            _import_drawings(kind.__module__)
    return drawn(result, label, caption)


@singledispatch
def drawn(result: Any, label: str, caption: str) -> Any:
    """Draw `result`; register a drawing for another type with ``@drawn.register``."""
    from matplotlib.figure import Figure

    if isinstance(result, Figure | Fragment):
        return result
    raise InputError(
        f"Nothing is known of how to show a {type(result).__name__}; show its rows, or register a drawing for it "
        "with kokoro_nb.reporting.show.drawn.register."
    )


@drawn.register(list)
@drawn.register(tuple)
def _rows(result: Any, label: str, caption: str) -> Fragment:
    if not all(isinstance(row, Mapping) for row in result):
        raise InputError("Only rows can be shown as a table: give a list of mappings, name of column to value.")
    return table(result, caption)


def _import_drawings(module: str) -> None:
    """Import what draws the results of the study that `module` belongs to, if it has drawings."""
    name = DRAWINGS + module.removeprefix(STUDIES).partition(".")[0]
    if find_spec(name) is not None:
        import_module(name)
