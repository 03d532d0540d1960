"""The diagnosis of a module on a runtime: by the operators that it shows, or by parts that are compiled alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.locate.bisection import Bisection, alone_wrong, bisect
from kokoro_nb.locate.culprit import Culprit, Mechanism, Name, with_known_defect, wrong_at
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.interface_faults import (
    drawing,
    drawn,
    held_dtypes,
    lost_start,
    lost_state,
    retyped,
    with_lost_start,
)
from kokoro_nb.locate.investigation import Investigation, Subject, reference_trace
from kokoro_nb.locate.local_error import LocalError, explained_errors
from kokoro_nb.locate.output_error import OutputError, OutputLimit, output_error, worst_output
from kokoro_nb.locate.propagation import (
    Deviation,
    ErrorPropagation,
    deviations,
    lossy_culprits,
    lossy_operators,
    precision_mechanism,
    seen_deviations,
    with_effects,
)
from kokoro_nb.locate.rule_evidence import Evidence
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap, Trace


def traced_diagnosis(subject: Subject, found: Investigation, why: str = "") -> Diagnosis:
    """Return the diagnosis of what was traced: the wrong operators, and those whose rounding is too much."""
    outputs, dtypes = found.history.first, [tap.statistics.dtype for tap in found.candidate.taps]
    typed = None if getattr(subject.runtime, "own_dtypes", False) else held_dtypes(_meaning(found))
    output, limits = output_error(found.reference, outputs, dtypes, found.errors, subject.limit, typed)
    culprits = _measured(subject, found, limits)
    lossy = _lossy(found, culprits, output, limits) if output.verdict == "fail" else ()
    if lossy and culprits:  # what each does is a share of one error: that of all operators together
        errors = deviations(_meaning(found), found.candidate)
        culprits = with_effects(culprits, ErrorPropagation(_meaning(found), found.reference.inputs, errors, limits))
    every = (*culprits, *(placed(subject, one) for one in lossy))
    draws = drawing(_meaning(found))
    if draws and not every and output.verdict == "fail":
        anew = found.history.depends  # noise differs from run to run, and rightly so; a dropout does not belong there
        chosen = [one for one in draws if "dropout" in one.kind] if anew else draws
        every = tuple(placed(subject, drawn(found.backend, one, anew)) for one in chosen)
    if output.form and not every:
        every = tuple(placed(subject, one) for one in retyped(found))
    lost = lost_state(found, limits) if output.verdict == "pass" and not every else ()
    every = (*every, *(placed(subject, one) for one in lost))
    if found.history.depends and not draws:
        stale = Mechanism("stale memory", "memory that is used again and not cleared", (found.history.statement,))
        every = tuple(replace(one, mechanisms=_beside(stale, one.mechanisms)) for one in every)
    verdict, statement = _concluded(found, every, lossy, output, bool(draws))
    order = {operator.name: place for place, operator in enumerate(_meaning(found).operators)}
    shown = f"{found.backend} shows {len(found.candidate.taps)} operators ({found.candidate.how})"
    said = "tracing", why or shown, verdict, tuple(sorted(every, key=lambda one: order[_name(one)])), statement
    return Diagnosis(found.backend, *said, output=output, investigation=found, subject=subject, outputs=outputs)


def _beside(stale: Mechanism, own: tuple[Mechanism, ...]) -> tuple[Mechanism, ...]:
    """Return both: what reads before a tensor gives what lies there, and that changes from call to call as well."""
    another = bool(own) and own[0].name == "operator lowered as another"
    return (*own, stale) if another else (stale, *own)


def _measured(subject: Subject, found: Investigation, limits: dict[str, OutputLimit]) -> tuple[Culprit, ...]:
    """Return all wrong operators with their source lines and what each does to the output."""
    culprits = [placed(subject, one) for one in _own(found)]
    seen = _seen(found, culprits)
    for place, one in enumerate(culprits):
        if not one.mechanisms and one.kind == "nonfinite" and one.captured in seen:
            operators = {operator.name: operator for operator in _meaning(found).operators}
            dtype = found.candidate[_name(one)].statistics.dtype
            mechanism = precision_mechanism(seen[_name(one)], operators, _name(one), dtype)
            if mechanism.name == "overflow of the dtype":
                culprits[place] = replace(one, mechanisms=(mechanism,))
    culprits = [with_lost_start(one, seen.get(one.captured), found) for one in culprits]
    return with_effects(culprits, ErrorPropagation(_meaning(found), found.reference.inputs, seen, limits))


def placed(subject: Subject, culprit: Culprit) -> Culprit:
    """Return a culprit with the line that calls its operator, and with the known defect that it is a case of."""
    source = subject.candidate.specification.source_line(_name(culprit))
    return with_known_defect(replace(culprit, source=source), subject.candidate)


def _seen(found: Investigation, culprits: Sequence[Culprit]) -> dict[str, Deviation]:
    seen = seen_deviations(found.errors)
    others = {one.captured for one in culprits} - set(seen)
    return seen | (deviations(_meaning(found), found.candidate, others) if others else {})


def _lossy(
    found: Investigation, culprits: Sequence[Culprit], output: OutputError, limits: dict[str, OutputLimit]
) -> tuple[Culprit, ...]:
    """Return the operators whose rounding puts the output beyond its limit, beside the wrong ones."""
    meaning, inputs = _meaning(found), found.reference.inputs
    wrong = [one.captured for one in culprits]
    if wrong:
        explained = ErrorPropagation(meaning, inputs, _seen(found, culprits)).outputs(wrong)
        if worst_output(explained, found.history.first, limits).verdict == "pass":
            return ()  # the wrong operators explain all that is wrong with the output
    rest = {name: one for name, one in deviations(meaning, found.candidate).items() if name not in wrong}
    propagation = ErrorPropagation(meaning, inputs, rest, limits)
    names = lossy_operators(propagation)
    return lossy_culprits(names, propagation, rest, found.reference, found.candidate, found.errors)


def _concluded(
    found: Investigation, culprits: Sequence[Culprit], lossy: Sequence[Culprit], output: OutputError, draws: bool
) -> tuple[Verdict, str]:
    """Return the verdict and the result in one sentence."""
    wrong = len(culprits) - len(lossy)
    effects = [[one.effect or 0.0 for one in each] for each in (culprits[:wrong], lossy)]
    most, lossiest = (float(np.max(each, initial=0.0)) for each in effects)
    if wrong and not (lossy and (found.nonfinite.verdict != "fail" or lossiest > most)):
        if found.culprit.verdict == "fail":
            own = [one for one in culprits if one.tap is found.culprit.tap]
            felt = any((one.effect or 0) > 0 for one in own)
            masked = found.culprit.reaches_output is False and not (felt and output.verdict == "fail")
            said = replace(found.culprit, reaches_output=not masked).statement
            lost = [one.mechanism for one in own if one.mechanism.name == "lost state"]
            return "fail", f"{said[:-1]}: {lost[0].statement}." if lost else said
        return "fail", f"On {found.backend} {_name(culprits[0])} is wrong: {culprits[0].mechanism}."
    if lossy:
        names = ", ".join(_name(one) for one in lossy[:3]) + (f" and {len(lossy) - 3} more" if len(lossy) > 3 else "")
        dtype = found.candidate[_name(lossy[0])].statistics.dtype
        right = f"Every operator is right for {dtype}"
        if wrong:
            right = f"The operators that are wrong by themselves ({wrong}) explain little of it"
        return "fail", (f"On {found.backend} {output}. {right}: the output cannot bear the rounding of {names}.")
    if output.verdict == "fail" and draws:
        return "unknown", (
            f"The program draws random numbers, so that two runs on {found.backend} and in PyTorch cannot be compared; "
            "make the noise an input."
        )
    if output.verdict == "fail":
        return "unknown", (
            f"On {found.backend} {output}, and none of the operators that were captured is wrong or loses as much by "
            "rounding; try another backend, or method='bisection'."
        )
    if found.history.depends and not draws:
        return "fail", f"On {found.backend} no operator is wrong on the first call. {found.history.statement}"
    # of operators that were not captured, outputs within their limit say as much as bisection would
    if found.culprit.verdict != "pass" and not (found.culprit.tap is None and output.verdict == "pass"):
        return found.culprit.verdict, found.culprit.statement
    count, unseen = len(found.candidate.taps), found.culprit.reason
    others = f"; {unseen}, and the outputs are within their limit" if unseen else ""
    bad = sum(tap.statistics.finite < 1 for tap in found.candidate.taps)
    finite = "right to rounding" if bad else "finite, and right to rounding"
    others = f", {bad} of them as little finite as in PyTorch{others}" if bad else others
    return "pass", f"No operator is wrong on {found.backend}: all {count} that were captured are {finite}{others}."


def _meaning(found: Investigation) -> Any:
    assert found.reference.meaning is not None
    return found.reference.meaning


def _name(culprit: Culprit) -> str:
    assert culprit.tap is not None
    return culprit.tap.name


def _own(found: Investigation) -> tuple[Culprit, ...]:
    """Return the operators that are wrong by themselves, the first non-finite one with them."""
    named = {_name(one) for one in found.faults}
    new = found.nonfinite.verdict == "fail" and _name(found.nonfinite) not in named
    return (found.nonfinite, *found.faults) if new else found.faults


JOINED: Name = "operators joined"
FEW = 8  # operators of which one, or the joining of them, is named


def bisected_diagnosis(
    subject: Subject, why: str, outputs: Mapping[str, np.ndarray], traced: Diagnosis | None = None
) -> Diagnosis:
    """Return the diagnosis by bisection of a program that gave `outputs`, and what each wrong operator does to them."""
    found = bisect(subject.candidate, subject.inputs, subject.runtime, subject.folder)
    known, errors = subject.known, [] if found.error is None else [found.error]
    named = []
    if found.error is not None:
        about = found.error, known.meaning, known.inputs, found.read, subject.runtime.name
        named = [alone_wrong(*about, candidates=found.operators)]
    elif found.joined is not None and len(found.operators) <= FEW:
        named = [_joined(subject, found, found.joined)]
    culprits = tuple(placed(subject, one) for one in named)
    dtypes = [operator.dtype for operator in subject.candidate.specification.operators]
    output, limits = output_error(known, outputs, dtypes, errors, subject.limit)
    if output.verdict == "fail" and found.verdict == "pass":
        # the runtime shows no operator: their bounds are those on the values that PyTorch gives in float32
        trace = reference_trace(subject.healthy, subject.inputs)
        own = explained_errors(trace)
        output, limits = output_error(known, outputs, dtypes, own, subject.limit)
        causes = lost_start(subject, outputs, limits)
        causes = causes or (_hidden_rounding(subject, trace, own, limits) if output.verdict == "fail" else ())
        culprits = tuple(placed(subject, one) for one in causes)
    culprits = with_effects(culprits, ErrorPropagation(known.meaning, known.inputs, seen_deviations(errors), limits))
    verdict, statement = found.verdict, found.statement
    together = next((one for one in culprits if one.mechanism.name == JOINED), None)
    if together is not None and verdict != "fail":
        verdict = "fail"
        statement = f"On {subject.runtime.name} {', '.join(together.candidates)}: {together.mechanism}."
    if output.verdict == "fail" and verdict == "pass":
        verdict = "fail" if culprits else "unknown"
        unseen = ", and no part is wrong alone: try a backend that shows its operators"
        why_so = ": " + "; ".join(dict.fromkeys(one.mechanism.statement for one in culprits)) if culprits else unseen
        statement = f"On {subject.runtime.name} {output}{why_so}."
    said = subject.runtime.name, "bisection", why, verdict, culprits, statement
    seen = traced.investigation if traced else None
    return Diagnosis(*said, output=output, investigation=seen, bisection=found, subject=subject, outputs=outputs)


def _hidden_rounding(
    subject: Subject, trace: Trace, errors: Sequence[LocalError], limits: dict[str, OutputLimit]
) -> tuple[Culprit, ...]:
    """Return the operators of a phase of which rounding within their bounds would put the output beyond its limit.

    The runtime does not show what it did to them, so that their effect is not measured.
    """
    draw, meaning, rounded = np.random.default_rng(0), subject.known.meaning, dict[str, Deviation]()
    for one in (each for each in errors if np.isfinite(each.bound) and each.bound):
        right = np.asarray(meaning.recompute(one.operator.name, trace.inputs, trace.values).numpy())  # type: ignore[union-attr]
        if right.dtype.kind == "f":
            rounded[one.operator.name] = Deviation(right + one.bound * draw.uniform(-1, 1, right.shape), right)
    propagation = ErrorPropagation(meaning, trace.inputs, rounded, limits)
    names, hidden = lossy_operators(propagation), replace(trace, backend=subject.runtime.name)
    found = lossy_culprits(names, propagation, rounded, trace, hidden, (), "rounding as large as its bound allows")
    if {one.mechanism.name for one in found} != {"accumulated phase"}:
        return ()  # what any rounding may do is no evidence
    words = "not shown by the runtime; rounding within its bound is more than the output can bear"
    return tuple(replace(one, effect=None, alone=None, channels=words) for one in found)


def _joined(subject: Subject, search: Bisection, error: LocalError) -> Culprit:
    """Return the first of a few operators that are right alone and wrong where the runtime joins them."""
    operators = {one.name: one for one in subject.candidate.specification.operators}
    first = operators[search.operators[0]]
    words = Evidence(error, {}).pattern.words if error.given.shape == error.right.shape else error.form
    evidence = (f"{error.operator.name} is wrong where {', '.join(search.operators)} are compiled together: {words}",)
    tap = Tap(first, describe(np.asarray(error.given)), np.asarray(error.given))
    causes = (Mechanism(JOINED, "each is right alone, and wrong where they are joined", evidence),)
    return wrong_at(tap, subject.runtime.name, causes, candidates=search.operators, channels=words)
