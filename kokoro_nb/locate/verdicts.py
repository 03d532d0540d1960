"""Which operator went wrong first, and which others did so by themselves."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.locate.culprit import Culprit, Mechanism, wrong_at
from kokoro_nb.locate.local_error import Judge, LocalError, parts, uncaptured
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.output_error import OutputLimit, worst_output
from kokoro_nb.locate.rule_evidence import Evidence, evidence_of
from kokoro_nb.traces.statistics import compare, describe
from kokoro_nb.traces.trace import CONSTANT, INPUT, VIEWS, Operator, Tap, Trace

SHOWN = 1e-5  # of the peak of an output


def first_nonfinite(reference: Trace, candidate: Trace) -> Culprit | None:
    """Return the first operator whose result is not finite although all its inputs are; None if all are finite.

    Parameters
    ----------
    reference : Trace
        Of the eager program: what is as little finite there is no fault of the backend.
    candidate : Trace
        Of any backend; statistics are enough.

    Returns
    -------
    Culprit or None
        Verdict ``unknown`` if what is not finite comes from operators that were not captured: those are its candidates.
    """
    expected = {tap.name: tap.statistics.finite for tap in reference.taps}
    # the share of an empty tensor is NaN, which is not below any
    captured = {tap.name: not tap.statistics.finite < expected.get(tap.name, 1) for tap in candidate.taps}
    bad = [tap for tap in candidate.taps if not captured[tap.name]]
    if not bad:
        return None
    known = {operator.name: operator for operator in candidate.requested}
    finite = {f"{INPUT}{name}": bool(np.isfinite(one).all()) for name, one in candidate.inputs.items()} | captured

    def sound(operator: Operator) -> bool:
        return all(finite.get(one, one.startswith(CONSTANT)) for one in operator.inputs)

    for view in (one for one in candidate.requested if one.kind in VIEWS and one.name not in captured):
        finite[view.name] = sound(view)
    source = next((tap for tap in bad if sound(tap.operator)), None)
    tap = source or bad[0]
    lost = () if source else uncaptured(tap.operator, captured, known)
    found = Culprit("nonfinite", "fail", candidate.backend, tap, (tap.name, *lost), tap.statistics.pattern)
    found = replace(found, upstream=tap.operator.inputs, reaches_output=_shown(reference, candidate, np.inf))
    unknown = "its inputs were not captured" if lost else "its inputs are not finite either"
    return found if source else replace(found, verdict="unknown", reason=unknown)


def _shown(reference: Trace, candidate: Trace, limit: float) -> bool | None:
    """Return whether an output differs by more of its peak, or is not finite where it should be; None without any."""
    if not candidate.outputs:
        return None
    finite = {name: np.zeros_like(one) for name, one in candidate.outputs.items()}
    limits = dict.fromkeys(candidate.outputs, OutputLimit(limit, "what an output shows"))
    return worst_output({**finite, **reference.outputs}, candidate.outputs, limits).verdict == "fail"


def local_errors(reference: Trace, candidate: Trace) -> tuple[LocalError, ...]:
    """Return the local error of every captured operator of `candidate`, in the order of execution.

    Of those that are right only the figures remain.

    Parameters
    ----------
    reference : Trace
        Of ``eager`` or ``eager-float64``, on the same inputs. It says what the operators should compute.
    candidate : Trace
        Of the backend, with whole tensors.

    Raises
    ------
    InputError
        If the reference does not say what its operators compute, the candidate holds statistics alone, or the two runs
        were given different inputs.
    """
    judge = _judge(reference, candidate)
    errors: list[LocalError] = []
    for tap in candidate.taps:
        try:
            error = judge.error(tap.name)
        except (RuntimeError, ValueError, IndexError, TypeError):
            if not any(one.form for one in errors):
                raise
            continue  # what was computed of a result of another shape may be nothing that PyTorch computes
        errors.append(error if error.unexplained else error.without_tensors())
    return tuple(errors)


def divergences(reference: Trace, candidate: Trace, errors: Sequence[LocalError] | None = None) -> tuple[Culprit, ...]:
    """Return every operator that is wrong by itself, in the order of execution: each is a fault of its own.

    Parameters
    ----------
    reference, candidate : Trace
        As for `local_errors`; what the inherited error is measured against are the tensors of the reference.
    errors : sequence of LocalError, optional
        What `local_errors` returned of the two.

    Raises
    ------
    InputError
        As `local_errors`.
    """
    judge = _judge(reference, candidate)
    errors = local_errors(reference, candidate) if errors is None else errors
    wrong = [error for error in errors if error.unexplained]
    sound = {one for error in errors if not error.unexplained for one in error.along}
    firsts: dict[tuple[str, ...], LocalError] = {}
    for error in wrong:
        firsts.setdefault(_candidates(error, wrong, sound), error)
    return tuple(_culprit(reference, candidate, judge, error, group) for group, error in firsts.items())


def _judge(reference: Trace, candidate: Trace) -> Judge:
    if reference.meaning is None:
        raise InputError("The reference does not say what its operators compute; trace the eager program for it.")
    for name, value in reference.inputs.items():
        if name not in candidate.inputs or not np.array_equal(value, candidate.inputs[name], equal_nan=True):
            raise InputError(f"The two runs were given different inputs ('{name}'); run both on the same.")
    return Judge(reference.meaning, candidate)


def _candidates(error: LocalError, wrong: Sequence[LocalError], sound: Collection[str]) -> tuple[str, ...]:
    """Return the operators of which one is wrong: those computed along, if other wrong operators share them.

    Operators that a right operator was computed from, too, do not count as shared by two wrong ones.
    """
    mine = (error.operator.name, *error.along)
    for other in wrong:
        shared = tuple(one for one in error.along if one in other.along and one not in sound)
        if other is not error and shared:
            mine = tuple(one for one in mine if one in shared)
    return mine or (error.operator.name,)


def _culprit(reference: Trace, candidate: Trace, judge: Judge, error: LocalError, names: tuple[str, ...]) -> Culprit:
    upstream = judge.upstream(error.operator.name)
    evidence = evidence_of(error, upstream, reference.meaning, candidate)
    found = wrong_operator(evidence, candidate.backend, candidate[error.operator.name])
    inherited, reaches = _inherited(reference, error), _shown(reference, candidate, SHOWN)
    return replace(found, candidates=names, upstream=upstream, inherited_error=inherited, reaches_output=reaches)


def wrong_operator(
    evidence: Evidence, backend: str, tap: Tap | None = None, causes: tuple[Mechanism, ...] | None = None
) -> Culprit:
    """Return an operator as a culprit, with the figures of its error, and the mechanisms that are given or found."""
    error, given = evidence.error, np.asarray(evidence.error.given)
    words = evidence.pattern.words if error.given.shape == error.right.shape else ""
    causes = mechanisms(evidence) if causes is None else causes
    if error.form and not causes:
        causes = (Mechanism("another shape or dtype", "a result of another shape or dtype", (error.form,)),)
    found = wrong_at(tap or Tap(error.operator, describe(given), given), backend, causes)
    channels = "; ".join(filter(None, (error.form, words)))
    return replace(found, local_error=error.of_peak_or_nan, ratio=error.ratio, channels=channels)


def _inherited(reference: Trace, error: LocalError) -> float | None:
    """Return how far what is right on the candidate's inputs is from the reference, of the reference's peak."""
    known = reference.values.get(error.operator.name)
    if known is None or not known.size:
        return None
    known = parts(known)
    return compare(known, error.right).of_peak if known.shape == error.right.shape else float("nan")


def uncovered(reference: Trace, candidate: Trace) -> tuple[str, ...]:
    """Return the operators of `reference` that compute something, were not captured and have no captured twin."""
    captured = {tap.name for tap in candidate.taps}
    twins = {_work(tap.operator) for tap in candidate.taps}
    folded: set[str] = set()
    found = []
    for operator in reference.meaning.operators:
        if all(one.startswith(CONSTANT) or one in folded for one in operator.inputs):
            folded.add(operator.name)
        elif operator.name not in captured and operator.kind not in VIEWS and _work(operator) not in twins:
            found.append(operator.name)
    return tuple(found)


def _work(operator: Operator) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """Return operator, inputs and shape: of operators that share them a backend may compute one."""
    return operator.op, operator.inputs, operator.shape
