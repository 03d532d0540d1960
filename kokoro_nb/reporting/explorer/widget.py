"""The explorer as a widget of JupyterLab; the details of one operator are made in the kernel on demand."""

from functools import cache
from html import escape
from typing import Any

from kokoro_nb.markup import Fragment, resource
from kokoro_nb.reporting.explorer.detail import ONLY_STATISTICS, detail, histogram_of, overview
from kokoro_nb.reporting.explorer.entries import Entries
from kokoro_nb.reporting.explorer.explorer_columns import payload

VIEW = "application/vnd.jupyter.widget-view+json"
WORST = 8  # operators in the form that needs no kernel


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


def widget(entries: Entries) -> Any:
    """Return the widget of these operators."""
    return _widget_class()(entries)


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
