"""An explorer of a trace: a table of its operators to sort and filter, and each of them in full."""

from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from kokoro_nb.markup import Fragment, resource
from kokoro_nb.reporting.explorer.detail import ONLY_STATISTICS, detail, histogram_of, overview
from kokoro_nb.reporting.explorer.entries import Entries, collect, payload
from kokoro_nb.traces.trace import Trace

if TYPE_CHECKING:
    from kokoro_nb.locate import Investigation

__all__ = ["explore"]
VIEW = "application/vnd.jupyter.widget-view+json"
WORST = 8  # operators in the form that needs no kernel


def explore(found: "Trace | Investigation") -> Any:
    """Return the operators of a trace for a notebook to show: a widget in JupyterLab, plain HTML where no kernel runs.

    Choosing an operator shows its statistics, a map of its channels, what it was computed from and who reads it, and,
    on demand, a histogram of its values; maps by statistic and histograms need the tensors (``keep='full'``). Of an
    investigation each has its own error, the distance to the reference, and what was found in it.

    Raises
    ------
    InputError
        If the trace has no operators.
    """
    if isinstance(found, Trace):
        return widget(collect(found))
    return widget(collect(found.candidate, (found.nonfinite, *found.faults), found.reference, found.errors))


def widget(entries: Entries) -> Any:
    """Return the widget of these operators."""
    return _widget_class()(entries)


def still(entries: Entries) -> Fragment:
    """Return the form of the explorer that a page without a kernel shows."""
    return Fragment(overview(entries, WORST), entries.summary, resource("reporting/explorer/explorer.css"))


def answer(entries: Entries, question: Any) -> str:
    """Return the HTML that a question of the page asks for, ``""`` for what is no question.

    Parameters
    ----------
    entries : Entries
        The operators.
    question : dict
        ``ask``: ``operator`` or ``histogram``; ``name``: of which operator.
    """
    if not isinstance(question, dict) or question.get("name") not in entries.by_name:
        return ""
    name = question["name"]
    if question.get("ask") == "histogram":
        return histogram_of(entries.by_name[name])
    return detail(entries, name, _button, _offer(entries, name)) if question.get("ask") == "operator" else ""


def _button(name: str) -> str:
    return f'<button type="button" class="knb-go" data-operator="{escape(name)}">{escape(name)}</button>'


def _offer(entries: Entries, name: str) -> str:
    """Return the button that asks for the histogram, or why there is none."""
    tap = entries.by_name[name].tap
    if tap is None or tap.value is None:
        return f"<p>{escape(ONLY_STATISTICS)}</p>"
    return f'<div><button type="button" data-histogram="{escape(name)}">Show the histogram</button></div>'


@cache
def _widget_class() -> Any:
    """Return the class of the widget; made on first use, so that importing this module does not import anywidget."""
    import traitlets
    from anywidget import AnyWidget

    class Explorer(AnyWidget):
        """A table of operators; where no kernel runs, the ones to look at first as HTML."""

        _esm = resource("reporting/explorer/explorer.js")
        _css = resource("markup.css") + resource("reporting/explorer/explorer.css")
        operators = traitlets.Dict().tag(sync=True)

        def __init__(self, entries: Entries) -> None:
            super().__init__(operators=payload(entries))
            self._entries = entries
            self.on_msg(self._reply)

        def _reply(self, _: Any, question: Any, buffers: Any) -> None:
            self.send({"question": question, "html": answer(self._entries, question)})

        def _ipython_display_(self) -> None:
            """Show the widget, and beneath it the form without a kernel, which hides where the widget lives.

            In one output JupyterLab would prefer the widget even where a saved notebook has nothing left of it.
            """
            from IPython.display import display

            display({VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}, raw=True)
            display(still(self._entries))

        def __repr__(self) -> str:
            return self._entries.summary

    return Explorer
