"""The checks that every exported program has to pass, recorded in one call."""

from kokoro_nb.numerics.findings import Finding, Verdict
from kokoro_nb.numerics.parity import Parity
from kokoro_nb.numerics.survey import Row
from kokoro_nb.reporting.logbook import Logbook

REPEATED = "several calls on one loaded program agree"
PROBE_LIMIT = 1e-4  # of peak


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


def record_probe(log: Logbook, change: Parity, backend: str) -> None:
    """Record what tapping did to the output: where it changed it, what the taps show of the plain program is unknown.

    Parameters
    ----------
    log : Logbook
        Takes the finding.
    change : Parity
        The output of the tapped program against that of the plain one.
    backend : str
        On which both ran.
    """
    verdict: Verdict = "pass" if change.of_peak <= PROBE_LIMIT else "unknown"
    reason = "" if verdict == "pass" else "the taps changed the program; localise by cutting the graph instead"
    claim = "Tapping leaves the output as it was."
    log.note(
        Finding(
            "probe_effect",
            verdict,
            claim,
            log.weights,
            backend,
            value=change.of_peak,
            limit=PROBE_LIMIT,
            unit="of peak",
            reason=reason,
        )
    )
