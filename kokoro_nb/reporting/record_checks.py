"""The checks that every exported program has to pass, recorded in one call."""

from kokoro_nb.backends.base import Failure
from kokoro_nb.locate import Investigation
from kokoro_nb.locate.survey import Row
from kokoro_nb.reporting.logbook import Logbook

PROBE_LIMIT = 1e-5  # of peak
REPEATED = "several calls on one loaded program agree"


def record(log: Logbook, row: Row, subject: str, parity: float | None = None) -> None:
    """Record that `subject` runs on the backend of `row`, is finite, repeats itself and agrees with eager float32.

    Parameters
    ----------
    log : Logbook
        Takes the findings; an absent backend is one SKIP with its reason, and so is a run
        of what is built here for another machine.
    row : Row
        What `survey` measured.
    subject : str
        What was exported, as the start of a sentence: ``"The whole decoder"``.
    parity : float or None
        Largest difference to eager float32 as a share of the peak; None where the numbers are not well conditioned.

    Raises
    ------
    AssertionError
        At the first check that fails, after it was recorded.
    """
    if row.absent:
        log.skip("runs", f"{subject} is exported and runs.", row.absent, row.backend)
        return
    if row.unexecuted:
        log.outcome("built", f"{subject} is exported.", row.failure, row.backend)
        log.skip("runs", f"{subject} runs.", row.unexecuted, row.backend)
        return
    log.outcome("runs", f"{subject} is exported and runs.", row.failure, row.backend)
    nothing = float("nan")  # fails every check
    finite = row.eager32.finite if row.eager32 else nothing
    log.check("finite", f"{subject}: the output is finite.", finite, 1, "==", backend=row.backend)
    if row.climb and row.climb.drift is not None:
        log.check("repeat", f"{subject}: {REPEATED}.", row.climb.drift, 0, "==", backend=row.backend)
    if parity is not None:
        claim = f"{subject} agrees with eager float32."
        error = row.eager32.of_peak if row.eager32 else nothing
        log.check("parity", claim, error, parity, unit="of peak", backend=row.backend)


def record_investigation(log: Logbook, found: Investigation | Failure) -> None:
    """Record that a program runs, that looking into it left its output as it was, and that no operator is wrong.

    Parameters
    ----------
    log : Logbook
        Takes the findings.
    found : Investigation or Failure
        What `locate.investigate` returned.

    Raises
    ------
    AssertionError
        At the first check that fails, after it was recorded.
    """
    name = found.backend
    log.outcome("runs", "The program is exported and runs.", found if isinstance(found, Failure) else None, name)
    assert isinstance(found, Investigation)
    claim = "Tapping leaves the output as it was, but for rounding."
    log.check("probe_effect", claim, found.probe.of_peak, PROBE_LIMIT, unit="of peak", backend=name)
    claim = "The same inputs give the same answer after poisoned and constant ones."
    log.check("history", claim, found.history.depends, 0, "==", backend=name)
    bad = sum(tap.statistics.finite != 1 for tap in found.candidate.taps)
    log.check("finite", "Every captured operator is finite.", bad, 0, "==", backend=name)
    worst = max((error.ratio for error in found.errors), default=float("nan"))
    claim = "Every captured operator is right on its own inputs, within what rounding explains."
    log.check("local_error", claim, worst, 1, unit="of what rounding explains", backend=name)
