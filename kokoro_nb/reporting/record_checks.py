"""The checks that every exported program has to pass, by the type of what was measured: see `Logbook.record`."""

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation
from kokoro_nb.locate.survey import SurveyRow

if TYPE_CHECKING:
    from kokoro_nb.reporting.logbook import Logbook  # it imports this module when it needs it

PROBE_LIMIT = 1e-5  # of peak


@singledispatch
def record_checks(result: Any, log: "Logbook", subject: str, parity: float | None) -> None:
    """Record the checks of one result in `log`; the arguments are those of `Logbook.record`."""
    raise InputError(f"No checks are known for a {type(result).__name__}; use check or claim.")


@record_checks.register(SurveyRow)
def _row(row: SurveyRow, log: "Logbook", subject: str, parity: float | None) -> None:
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


@record_checks.register(Failure)
def _failure(failure: Failure, log: "Logbook", subject: str, parity: float | None) -> None:
    log.outcome("runs", f"{subject} is exported and runs.", failure, failure.backend)


@record_checks.register(Diagnosis)
def _diagnosis(found: Diagnosis, log: "Logbook", subject: str, parity: float | None) -> None:
    if found.bisection is None:
        record_checks(found.failure or found.investigation, log, subject, parity)
    elif found.verdict == "unknown":
        log.note(
            Finding(
                "bisection", "unknown", f"{subject}: {found.statement}", log.weights, found.backend, reason=found.why
            )
        )
    else:
        claim = f"{subject} computes what each of its operators computes in float64, within rounding."
        log.claim("bisection", claim, found.verdict == "pass", found.statement, backend=found.backend)


@record_checks.register(Investigation)
def _investigation(found: Investigation, log: "Logbook", subject: str, parity: float | None) -> None:
    name = found.backend
    log.outcome("runs", f"{subject} is exported and runs.", None, name)
    claim = "Tapping leaves the output as it was, but for rounding."
    log.check("probe_effect", claim, found.probe.of_peak, PROBE_LIMIT, unit="of peak", backend=name)
    claim = "The same inputs give the same answer after poisoned and constant ones."
    log.claim("history", claim, not found.history.depends, found.history.statement, backend=name)
    bad = sum(tap.statistics.finite != 1 for tap in found.candidate.taps)
    log.check("finite", "Every captured operator is finite.", bad, 0, "==", backend=name)
    worst = float(np.max([error.ratio for error in found.errors])) if found.errors else float("nan")
    claim = "Every captured operator is right on its own inputs, within what rounding explains."
    log.check("local_error", claim, worst, 1, unit="of what rounding explains", backend=name)
