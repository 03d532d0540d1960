"""The checks that every exported program has to pass, by the type of what was measured: see `Logbook.record`."""

from functools import singledispatch
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding
from kokoro_nb.locate.culprit import Culprit, known_defect
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.markup import number
from kokoro_nb.reporting.fragments import CheckLog

PROBE_LIMIT = 1e-5  # of peak


@singledispatch
def record_checks(result: Any, log: CheckLog, subject: str, parity: float | None) -> None:
    """Record the checks of one result in `log`; the arguments are those of `Logbook.record`."""
    raise InputError(f"No checks are known for a {type(result).__name__}; use check or claim.")


@record_checks.register(SurveyRow)
def _row(row: SurveyRow, log: CheckLog, subject: str, parity: float | None) -> None:
    if row.absent:
        log.skip("runs", f"{subject} is exported and runs.", row.absent, row.backend)
        return
    if row.unexecuted:
        log.outcome("built", f"{subject} is exported.", row.failure, row.backend)
        log.skip("runs", f"{subject} runs.", row.unexecuted, row.backend)
        return
    if row.failure is not None:
        record_checks(row.failure, log, subject, parity)
        return
    log.outcome("runs", f"{subject} is exported and runs.", None, row.backend)
    nothing = float("nan")  # fails every check
    finite = row.eager32.finite if row.eager32 else nothing
    if row.eager32 and (finite != 1 or (parity is not None and not row.eager32.of_peak <= parity)):
        log.diagnosis(row, subject)
    log.check("finite", f"{subject}: the output is finite.", finite, 1, "==", backend=row.backend)
    if row.climb and row.climb.drift is not None:
        claim = f"{subject}: several calls on one loaded program agree."
        log.check("repeat", claim, row.climb.drift, 0, "==", backend=row.backend)
    if parity is not None:
        claim = f"{subject} agrees with eager float32."
        error = row.eager32.of_peak if row.eager32 else nothing
        log.check("parity", claim, error, parity, unit="of peak", backend=row.backend)


@record_checks.register(Failure)
def _failure(failure: Failure, log: CheckLog, subject: str, parity: float | None) -> None:
    log.diagnosis(failure, subject)
    known = known_defect(failure)
    about = [str(failure), failure.operator and f"operator: {failure.operator}", failure.line and f"at {failure.line}"]
    about.append(f"known defect: {known['title']}" if known else "")
    log.outcome("runs", f"{subject} is exported and runs.", "; ".join(filter(None, about)), failure.backend)


@record_checks.register(Diagnosis)
def _diagnosis(found: Diagnosis, log: CheckLog, subject: str, parity: float | None) -> None:
    if found.failure is not None:
        record_checks(found.failure, log, subject, parity)
        return
    if found.verdict == "fail" or (found.output is not None and found.output.verdict == "fail"):
        curable = found.culprits and found.subject is not None and found.output is not None and not found.remedies
        found = found.try_remedies() if curable else found
        log.diagnosis(found, subject)
    if found.investigation is not None and found.bisection is None:
        record_checks(found.investigation, log, subject, parity)
        _culprits(found, log)
        claim = f"{subject} is right as a whole, and each operator by itself."
    else:
        claim = f"{subject} computes what each of its operators computes in float64, within rounding."
    if found.verdict == "unknown":
        statement = f"{subject}: {found.statement}"
        log.note(Finding(found.method, "unknown", statement, log.weights, found.backend, reason=found.why))
    elif found.verdict == "fail" or found.bisection is not None:
        named = _named(found.ranked[0]) if found.ranked else None
        log.claim(found.method, claim, found.verdict == "pass", found.statement, found.backend, named)


def _culprits(found: Diagnosis, log: CheckLog) -> None:
    """Record the operator that is executed first and the one with the largest effect, which may be the same."""
    named = {one.name: one for one in (*found.culprits[:1], *found.ranked[:1])}
    for one in named.values():
        inherited = "" if one.inherited_error is None else f"inherited error {number(one.inherited_error)} of peak"
        effect = "" if one.effect is None else f"{number(100 * one.effect)} % of the output's error"
        notes = (f"mechanism: {one.mechanism.name}", inherited, effect, one.source, one.reason)
        reason = "; ".join(filter(None, notes))
        measured: dict[str, Any] = {"value": one.local_error, "unit": "of peak, by itself", "tap": _named(one)}
        log.note(Finding(one.kind, one.verdict, one.statement, log.weights, one.backend, reason=reason, **measured))


@record_checks.register(Investigation)
def _investigation(found: Investigation, log: CheckLog, subject: str, parity: float | None) -> None:
    name = found.backend
    log.outcome("runs", f"{subject} is exported and runs.", None, name)
    claim = "Tapping leaves the output as it was, but for rounding."
    if not any(np.isfinite(one).any() for one in found.history.first.values()):
        reason = "no element of the outputs is finite without taps"
        log.note(Finding("probe_effect", "unknown", claim, log.weights, name, reason=reason))
    else:
        log.check("probe_effect", claim, found.probe.of_peak, PROBE_LIMIT, unit="of peak", backend=name)
    claim = "The same inputs give the same answer after poisoned and constant ones."
    log.claim("history", claim, not found.history.depends, found.history.statement, backend=name)
    bad = sum(tap.statistics.finite != 1 for tap in found.candidate.taps)
    named = None if found.nonfinite is None else _named(found.nonfinite)
    log.check("finite", "Every captured operator is finite.", bad, 0, "==", "operators", name, named)
    wrong = _named(found.faults[0]) if found.faults else None
    worst = float(np.max([error.ratio for error in found.errors])) if found.errors else float("nan")
    claim = "Every captured operator is right on its own inputs, within the rounding-error bound."
    log.check("local_error", claim, worst, 1, "<=", "of the rounding-error bound", name, wrong)


def _named(culprit: Culprit) -> str:
    return f"{culprit.name} ({culprit.tap.op})"
