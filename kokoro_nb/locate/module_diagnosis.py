"""The diagnosis of a module on a runtime: by the operators that it shows, or by parts that are compiled alone.

An export may be wrong although its operators compute what they should: in dtypes, state, and random numbers.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.eager import EagerProgram
from kokoro_nb.backends.exported import snapshot
from kokoro_nb.backends.ladder import difference
from kokoro_nb.backends.signature import BFLOAT16, checked
from kokoro_nb.backends.specification import Specification
from kokoro_nb.faults.planting import program_copy
from kokoro_nb.findings import Verdict
from kokoro_nb.locate import propagation
from kokoro_nb.locate.bisection import Bisection, bisect
from kokoro_nb.locate.culprit import Culprit, Mechanism, Name, unseen_at, with_known_defect, wrong_at
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation, Subject, reference_trace
from kokoro_nb.locate.local_error import LocalError, explained_errors, parts
from kokoro_nb.locate.output_error import Limits, OutputError, output_error, worst_output
from kokoro_nb.locate.propagation import Deviation, ErrorPropagation, deviations, lossy_culprits, with_effects
from kokoro_nb.locate.rule_evidence import Evidence
from kokoro_nb.locate.verdicts import SHOWN, uncovered
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import CONSTANT, Given, Operator, Tap, Trace

HELD = {BFLOAT16: "float32", "complex64": "float32", "complex128": "float64"}
"""Dtype of the numbers of the array that holds an output; complex ones may be given as their parts."""


def traced_diagnosis(subject: Subject, found: Investigation, why: str = "") -> Diagnosis:
    """Return the diagnosis of what was traced: the wrong operators, and those whose rounding is too much."""
    outputs, dtypes = found.history.first, [tap.statistics.dtype for tap in found.candidate.taps]
    meaning, typed = found.reference.meaning, None
    if not getattr(subject.runtime, "own_dtypes", False):
        typed = {name: HELD.get(dtype, dtype) for name, dtype in meaning.output_dtypes.items()}
    output, limits = output_error(found.reference, outputs, dtypes, found.errors, subject.limit, typed)
    failing = [one for one in (found.nonfinite, *found.faults) if one is not None and one.verdict == "fail"]
    wrong = [placed(subject, one) for one in {one.name: one for one in failing}.values()]  # a fault has more figures
    names, seen = {one.captured for one in wrong}, propagation.seen_deviations(found.errors)
    seen |= deviations(found.reference, found.candidate, names - set(seen))
    carried = ErrorPropagation(found.reference, seen, limits)
    lossy: tuple[Culprit, ...] = ()
    if output.verdict == "fail" and not _explain(names, carried, outputs):
        known = deviations(found.reference, found.candidate)
        rest = {name: one for name, one in known.items() if name not in names}
        lossy = lossy_culprits(ErrorPropagation(found.reference, rest, limits), found.candidate, found.errors)
        if lossy:  # what each does is a share of one error: that of all operators together
            carried = ErrorPropagation(found.reference, seen | known, limits)
    culprits = with_effects([_explained(one, seen.get(one.captured), found) for one in wrong], carried)
    draws, more = drawing(meaning), [*lossy]
    if draws and not (culprits or more) and output.verdict == "fail":
        anew = found.history.depends  # noise differs from run to run, and rightly so; a dropout does not belong there
        more += [_drawn(found.backend, one, anew) for one in draws if not anew or "dropout" in one.kind]
    if output.form and not (culprits or more):
        more += _retyped(found)
    if output.verdict == "pass" and not (culprits or more):
        more += _lost_state(found, limits)
    every = (*culprits, *(placed(subject, one) for one in more))
    if found.history.depends and not draws:
        stale = Mechanism("stale memory", "memory that is used again and not cleared", (found.history.statement,))
        every = tuple(replace(one, mechanisms=_beside(stale, one.mechanisms)) for one in every)
    verdict, statement = _concluded(found, every, lossy, output, bool(draws))
    order = {operator.name: place for place, operator in enumerate(meaning.operators)}
    why = why or f"{found.backend} shows {len(found.candidate.taps)} operators ({found.candidate.how})"
    every = tuple(sorted(every, key=lambda one: order[one.name]))
    result = Diagnosis(found.backend, "tracing", why, verdict, every, statement, output=output, subject=subject)
    return replace(result, investigation=found, outputs=outputs)


def _beside(stale: Mechanism, own: tuple[Mechanism, ...]) -> tuple[Mechanism, ...]:
    """Return both: what reads before a tensor gives what lies there, and that changes from call to call as well."""
    return (*own, stale) if own and own[0].name == "operator lowered as another" else (stale, *own)


def _explain(names: Collection[str], carried: ErrorPropagation, outputs: Given) -> bool:
    """Return whether the errors of these operators alone make the outputs what they are, within their limits."""
    return bool(names) and worst_output(carried.outputs(names), outputs, carried.limits).verdict == "pass"


def placed(subject: Subject, culprit: Culprit) -> Culprit:
    """Return a culprit with the line that calls its operator, and with the known defect that it is a case of."""
    source = subject.candidate.specification.source_line(culprit.name)
    return with_known_defect(replace(culprit, source=source), subject.candidate)


def _concluded(
    found: Investigation, culprits: Sequence[Culprit], lossy: Sequence[Culprit], output: OutputError, draws: bool
) -> tuple[Verdict, str]:
    """Return the verdict and the result in one sentence."""
    wrong = len(culprits) - len(lossy)
    effects = [[one.effect or 0.0 for one in each] for each in (culprits[:wrong], lossy)]
    most, lossiest = (float(np.max(each, initial=0.0)) for each in effects)
    first = found.culprit
    lost = first is not None and (first.kind, first.verdict) == ("nonfinite", "fail")
    if wrong and not (lossy and (not lost or lossiest > most)):
        return "fail", _wrong_statement(found, culprits, output)
    if lossy:
        names = ", ".join(one.name for one in lossy[:3]) + (f" and {len(lossy) - 3} more" if len(lossy) > 3 else "")
        right = f"Every operator is right for {found.candidate[lossy[0].name].statistics.dtype}"
        if wrong:
            right = f"The operators that are wrong by themselves ({wrong}) explain little of it"
        return "fail", f"On {found.backend} {output}. {right}: the output cannot bear the rounding of {names}."
    if output.verdict == "fail" and draws:
        runs = f"two runs on {found.backend} and in PyTorch cannot be compared"
        return "unknown", f"The program draws random numbers, so that {runs}; make the noise an input."
    if output.verdict == "fail":
        none = "none of the operators that were captured is wrong or loses as much by rounding"
        return "unknown", f"On {found.backend} {output}, and {none}; try another backend, or method='bisection'."
    if found.history.depends and not draws:
        return "fail", f"On {found.backend} no operator is wrong on the first call. {found.history.statement}"
    if first is not None:
        return first.verdict, first.statement
    count, unseen = len(found.candidate.taps), uncovered(found.reference, found.candidate)
    # of operators that were not captured, outputs within their limit say as much as bisection would
    were = f"{len(unseen)} {'was' if len(unseen) == 1 else 'were'} not captured"
    others = f"; {were}, from {unseen[0]} on, and the outputs are within their limit" if unseen else ""
    bad = sum(tap.statistics.finite < 1 for tap in found.candidate.taps)
    finite = "right to rounding" if bad else "finite, and right to rounding"
    others = f", {bad} of them as little finite as in PyTorch{others}" if bad else others
    return "pass", f"No operator is wrong on {found.backend}: all {count} that were captured are {finite}{others}."


def _wrong_statement(found: Investigation, culprits: Sequence[Culprit], output: OutputError) -> str:
    """Return which operator is wrong first, in one sentence."""
    if found.culprit is None or found.culprit.verdict != "fail":
        return f"On {found.backend} {culprits[0].name} is wrong: {culprits[0].mechanism}."
    own = [one for one in culprits if one.tap is found.culprit.tap]
    felt = any((one.effect or 0) > 0 for one in own)
    masked = found.culprit.reaches_output is False and not (felt and output.verdict == "fail")
    said = replace(found.culprit, reaches_output=not masked).statement
    lost = [one.mechanism for one in own if one.mechanism.name == "lost state"]
    return f"{said[:-1]}: {lost[0].statement}." if lost else said


def drawing(meaning: Any) -> list[Operator]:
    """Return the operators of a program that draw random numbers."""
    return [one for one in meaning.operators if one.draws]


def _drawn(backend: str, operator: Operator, anew: bool) -> Culprit:
    """Return an operator that draws numbers as a culprit: `anew` in each call, or the same in two."""
    text = "every call gives the same numbers, which are not those of PyTorch"
    words = "random numbers drawn at export, or left out"
    if anew:
        text, words = "every call drops other numbers", "a dropout that is on, as in training mode"
    return unseen_at(operator, backend, Mechanism("baked-in random numbers", words, (text,)), text)


def _retyped(found: Investigation) -> list[Culprit]:
    """Return the first operator of another dtype than in PyTorch, where an output is: it is right but for that."""
    for tap in found.candidate.taps:
        if tap.statistics.dtype != ("float32" if tap.operator.dtype == BFLOAT16 else tap.operator.dtype):
            text = f"{tap.statistics.dtype} in place of {tap.operator.dtype}"
            cause = Mechanism("another shape or dtype", "a result of another dtype", (text,))
            return [wrong_at(tap, found.backend, (cause,), channels=text)]
    return []


def _lost_state(found: Investigation, limits: Limits) -> list[Culprit]:
    """Return the operators that compute the new state of a program whose later calls are not those of PyTorch."""
    pairs = list(zip(found.history.right, found.history.later, strict=True))
    errors = [worst_output(right, given, limits) for right, given in pairs]
    wrong = next((error for error in errors if error.verdict == "fail"), None)
    if wrong is None:
        return []
    text = f"on a later call {wrong}"
    if wrong in errors[:2] and all(difference(dict(found.history.first), dict(given)) == 0 for _, given in pairs[:2]):
        text = "every call gives the result of the first, bit for bit"
    what = {name: f"'{name}' is not kept from one call to the next" for name in found.reference.meaning.state}
    causes = {name: Mechanism("lost state", words, (text,)) for name, words in what.items()}
    return _writing(found.reference.meaning, causes, found.backend, text)


def _writing(meaning: Any, causes: Given, backend: str, text: str = "") -> list[Culprit]:
    """Return the operators that compute new values of buffers as culprits; `text` is a cause's own by default."""
    made = {meaning.state[name]: cause for name, cause in causes.items()}
    known = [one for one in meaning.operators if one.name in made]
    return [unseen_at(one, backend, made[one.name], text or made[one.name].statement) for one in known]


def with_plain_state(found: Diagnosis) -> Diagnosis:
    """Return a diagnosis that nothing is wrong, unless a plain attribute makes a later call in PyTorch another.

    An export keeps what its buffers hold, not what other attributes do. Named is the first operator that gives
    something else in an export after these calls. Programs that write to buffers or draw at random are not looked at.
    """
    subject: Any = found.subject
    exported, calls = getattr(subject, "candidate", None), list[Given | None]()
    if exported is None or found.verdict != "pass" or exported.specification.state or drawing(exported.specification):
        return found
    program = EagerProgram(snapshot(exported.module), exported.inputs, exported.outputs, exported.patches, False)
    inputs, before = checked(subject.inputs, exported.inputs), _plain_attributes(program.module)
    halved = {name: one / 2 if one.dtype.kind == "f" else one for name, one in inputs.items()}
    for given in (inputs, halved, inputs):
        calls.append(None)
        with suppress(Exception):  # of a module that takes one call alone, or other numbers
            calls[-1] = program.run({name: one.copy() for name, one in given.items()})
        changed = [name for name, text in _plain_attributes(program.module).items() if before.get(name) != text]
        if not changed or calls[0] is None:
            return found
    error = worst_output(calls[0], calls[2]) if calls[0] and calls[2] else None
    if error is not None and error.verdict != "fail" and error.of_peak <= SHOWN:
        return found
    taps, later = reference_trace(exported, inputs).taps, tuple[Tap, ...]()
    with suppress(Exception):  # in that state it may not be exported
        later = program.trace(inputs).taps
    differ = [one for one, other in zip(taps, later, strict=False) if repr(one) != repr(other)]
    words = f"the module keeps state in plain attributes ({', '.join(changed)}), which an export does not contain"
    text = f"in PyTorch, at a later call with the same inputs, {error or 'it stops'}"
    cause = Mechanism("lost state", words, (f"{text}; make it a buffer, or an input and an output",))
    named = [wrong_at(one, found.backend, (cause,), channels=text) for one in [*differ, *taps[-1:]][:1]]
    culprits = tuple(replace(one, source=exported.specification.source_line(one.name)) for one in named)
    return replace(found, verdict="fail", culprits=culprits, statement=f"{words[0].upper()}{words[1:]}: {text}.")


def _plain_attributes(module: Any) -> dict[str, str]:
    """Return what the attributes of a module and its parts hold, but for tensors and modules of theirs, in words."""
    known, parts = {*vars(torch.nn.Module())}, module.named_modules()
    named = ((f"{path}.{name}".lstrip("."), name, one) for path, part in parts for name, one in vars(part).items())
    return {place: repr((one, getattr(one, "__dict__", None))) for place, name, one in named if name not in known}


def _explained(culprit: Culprit, deviation: Deviation | None, found: Investigation) -> Culprit:
    """Return a culprit with the mechanisms that its deviation speaks for: overflow, and a buffer that starts at 0."""
    meaning, trace, tap = found.reference.meaning, found.candidate, culprit.tap
    if tap is None or deviation is None:
        return culprit
    if not culprit.mechanisms and culprit.kind == "nonfinite":
        beyond = propagation.overflow(deviation, tap.statistics.dtype)
        culprit = culprit if beyond is None else replace(culprit, mechanisms=(beyond,))
    for name in [one for one in meaning.state if f"{CONSTANT}{one}" in tap.operator.inputs]:
        given, right = np.asarray(deviation.given, np.float64), deviation.right
        instead = parts(_zeroed(meaning, [name]).recompute(culprit.captured, trace.inputs, trace.values).numpy())
        if np.abs(given - instead).max() <= 1e-3 * np.abs(given - right).max():
            return replace(culprit, mechanisms=(_lost_start_of(name), *culprit.mechanisms))
    return culprit


def _lost_start(subject: Subject, outputs: Any, limits: Limits) -> list[Culprit]:
    """Return the operators that compute new values of buffers, if the outputs are those of buffers that start at 0."""
    meaning = subject.known.meaning
    buffers = meaning.program.graph_signature.buffers_to_mutate.values()
    held = [name for name, made in meaning.state.items() if name in buffers and made]
    if not any(meaning.stored(name).any() for name in held):
        return []
    if worst_output(_zeroed(meaning, held).run(subject.known.inputs, double=True), outputs, limits).verdict != "pass":
        return []
    return _writing(meaning, {name: _lost_start_of(name) for name in held}, subject.runtime.name)


def _lost_start_of(name: str) -> Mechanism:
    text = f"with zeros in '{name}' PyTorch gives the result of the runtime"
    return Mechanism("lost state", f"the buffer '{name}' starts at 0, not at the module's values", (text,))


def _zeroed(meaning: Any, names: Collection[str]) -> Specification:
    """Return a program whose buffers of these names start at 0."""
    program = program_copy(meaning.program)
    for name in names:
        held = program.state_dict if name in program.state_dict else program.constants
        held[name] = torch.zeros_like(meaning.stored(name))
    return Specification(program, meaning.inputs, meaning.outputs)


JOINED: Name = "operators joined"
FEW = 8  # operators of which one, or the joining of them, is named


def bisected_diagnosis(subject: Subject, why: str, outputs: Given, traced: Diagnosis | None = None) -> Diagnosis:
    """Return the diagnosis by bisection of a program that gave `outputs`, and what each wrong operator does to them."""
    found = bisect(subject.candidate, subject.inputs, subject.runtime, subject.folder)
    backend, verdict, statement = subject.runtime.name, found.verdict, found.statement
    known, errors = subject.known, [] if found.error is None else [found.error]
    named = [] if found.culprit is None else [found.culprit]
    if found.joined is not None and len(found.operators) <= FEW:
        named = [_joined(subject, found, found.joined)]
        verdict, statement = "fail", f"On {backend} {', '.join(found.operators)}: {named[0].mechanism}."
    dtypes = [operator.dtype for operator in subject.candidate.specification.operators]
    output, limits = output_error(known, outputs, dtypes, errors, subject.limit)
    if output.verdict == "fail" and found.verdict == "pass":
        # the runtime shows no operator: their bounds are those on the values that PyTorch gives in float32
        trace = reference_trace(subject.healthy, subject.inputs)
        own = explained_errors(trace)
        output, limits = output_error(known, outputs, dtypes, own, subject.limit)
        if output.verdict == "fail":
            named = _lost_start(subject, outputs, limits) or _hidden_rounding(subject, trace, own, limits)
            verdict = "fail" if named else "unknown"
            unseen = ", and no part is wrong alone: try a backend that shows its operators"
            causes = "; ".join(dict.fromkeys(one.mechanism.statement for one in named))
            statement = f"On {backend} {output}{f': {causes}' if named else unseen}."
    culprits = [placed(subject, one) for one in named]
    every = with_effects(culprits, ErrorPropagation(known, propagation.seen_deviations(errors), limits))
    result = Diagnosis(backend, "bisection", why, verdict, every, statement, output=output, subject=subject)
    seen = traced.investigation if traced else None
    return replace(result, investigation=seen, bisection=found, outputs=outputs)


def _hidden_rounding(subject: Subject, trace: Trace, errors: Sequence[LocalError], limits: Limits) -> list[Culprit]:
    """Return the operators of a phase of which rounding within their bounds would put the output beyond its limit.

    The runtime does not show what it did to them, so that their effect is not measured.
    """
    draw, rounded = np.random.default_rng(0), dict[str, Deviation]()
    for one in (each for each in errors if np.isfinite(each.bound) and each.bound):
        value = trace.values[one.operator.name]
        if value.dtype.kind == "f":
            moved = value + one.bound * draw.uniform(-1, 1, value.shape)
            rounded[one.operator.name] = Deviation(moved, value.astype(np.float64))
    hidden = replace(trace, backend=subject.runtime.name, meaning=subject.known.meaning)
    carried = ErrorPropagation(hidden, rounded, limits)
    found = lossy_culprits(carried, hidden, what="rounding as large as its bound allows")
    if {one.mechanism.name for one in found} != {"accumulated phase"}:
        return []  # what any rounding may do is no evidence
    words = "not shown by the runtime; rounding within its bound is more than the output can bear"
    return [replace(one, effect=None, alone=None, channels=words) for one in found]


def _joined(subject: Subject, search: Bisection, error: LocalError) -> Culprit:
    """Return the first of a few operators that are right alone and wrong where the runtime joins them."""
    operators = {one.name: one for one in subject.candidate.specification.operators}
    words = Evidence(error, {}).pattern.words if error.given.shape == error.right.shape else error.form
    evidence = (f"{error.operator.name} is wrong where {', '.join(search.operators)} are compiled together: {words}",)
    tap = Tap(operators[search.operators[0]], describe(np.asarray(error.given)), np.asarray(error.given))
    causes = (Mechanism(JOINED, "each is right alone, and wrong where they are joined", evidence),)
    return wrong_at(tap, subject.runtime.name, causes, candidates=search.operators, channels=words)
