"""An explorer of a trace: a table of its operators to sort and filter, and each of them in full."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kokoro_nb.reporting.explorer.entries import collect
from kokoro_nb.reporting.explorer.widget import widget
from kokoro_nb.traces.trace import Trace

if TYPE_CHECKING:
    from kokoro_nb.locate import Culprit, Investigation
    from kokoro_nb.locate.local_error import LocalError

__all__ = ["explore"]


def explore(
    trace: "Trace | Investigation",
    findings: "Sequence[Culprit]" = (),
    reference: Trace | None = None,
    errors: "Sequence[LocalError]" = (),
) -> Any:
    """Return the operators of a trace for a notebook to show: a widget in JupyterLab, plain HTML where no kernel runs.

    Choosing an operator shows its statistics, a map of its channels, what it was computed from and who reads it, and,
    on demand, a histogram of its values; maps by statistic and histograms need the tensors (``keep='full'``).

    Parameters
    ----------
    trace : Trace or Investigation
        The trace; an investigation holds the other arguments as well.
    findings : sequence of Culprit, optional
        What a localisation found in this trace.
    reference : Trace, optional
        Of the reference, with its tensors: the distance of each operator to it is shown, inherited error included.
    errors : sequence of LocalError, optional
        What `locate.verdicts.judged` returned: the own error of each operator.

    Raises
    ------
    InputError
        If the trace has no operators, or an error or a finding is of another one.
    """
    if not isinstance(trace, Trace):
        found = trace
        trace, reference, errors = found.candidate, found.reference, found.errors
        findings = (found.nonfinite, *found.faults)
    return widget(collect(trace, findings, reference, errors))
