"""The checks that every exported program has to pass, by the type of what was measured: see `Logbook.record`."""

from functools import singledispatch
from typing import Any

from kokoro_nb.backends.base import Failure
from kokoro_nb.errors import InputError
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation
from kokoro_nb.locate.survey import Row
from kokoro_nb.reporting.logbook import Logbook

PROBE_LIMIT = 1e-5  # of peak


@singledispatch
def record_checks(result: Any, log: Logbook, subject: str, parity: float | None) -> None:
    """Record the checks of one result in `log`; the arguments are those of `Logbook.record`."""
    raise InputError(f"No checks are known for a {type(result).__name__}; use check or claim.")


@record_checks.register
def _row(row: Row, log: Logbook, subject: str, parity: float | None) -> None:
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
        claim = f"{subject}: several calls on one loaded program agree."
        log.check("repeat", claim, row.climb.drift, 0, "==", backend=row.backend)
    if parity is not None:
        claim = f"{subject} agrees with eager float32."
        error = row.eager32.of_peak if row.eager32 else nothing
        log.check("parity", claim, error, parity, unit="of peak", backend=row.backend)


@record_checks.register
def _failure(failure: Failure, log: Logbook, subject: str, parity: float | None) -> None:
    log.outcome("runs", f"{subject} is exported and runs.", failure, failure.backend)


@record_checks.register
def _diagnosis(found: Diagnosis, log: Logbook, subject: str, parity: float | None) -> None:
    record_checks(found.investigation or found.failure, log, subject, parity)


@record_checks.register
def _investigation(found: Investigation, log: Logbook, subject: str, parity: float | None) -> None:
    name = found.backend
    log.outcome("runs", f"{subject} is exported and runs.", None, name)
    claim = "Tapping leaves the output as it was, but for rounding."
    log.check("probe_effect", claim, found.probe.of_peak, PROBE_LIMIT, unit="of peak", backend=name)
    claim = "The same inputs give the same answer after poisoned and constant ones."
    log.claim("history", claim, not found.history.depends, found.history.statement, backend=name)
    bad = sum(tap.statistics.finite != 1 for tap in found.candidate.taps)
    log.check("finite", "Every captured operator is finite.", bad, 0, "==", backend=name)
    worst = max((error.ratio for error in found.errors), default=float("nan"))
    claim = "Every captured operator is right on its own inputs, within what rounding explains."
    log.check("local_error", claim, worst, 1, unit="of what rounding explains", backend=name)
