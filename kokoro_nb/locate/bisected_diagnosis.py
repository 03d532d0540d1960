"""The diagnosis of a program whose runtime hides its operators: parts are compiled alone and halved."""

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.locate.bisection import Bisection, bisect
from kokoro_nb.locate.culprit import Culprit, Mechanism, Name, wrong_at
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.effect import ErrorPropagation, seen_deviations, with_effects
from kokoro_nb.locate.interface_faults import lost_start
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.local_error import LocalError, explained_errors
from kokoro_nb.locate.narrowing import alone_wrong
from kokoro_nb.locate.output_error import output_error
from kokoro_nb.locate.rule_evidence import Evidence
from kokoro_nb.locate.subject import Subject
from kokoro_nb.locate.traced_diagnosis import placed
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap

JOINED: Name = "operators joined"
FEW = 8  # operators of which one, or the joining of them, is named


def bisected_diagnosis(subject: Subject, why: str, traced: Diagnosis | None = None) -> Diagnosis:
    """Return the diagnosis by bisection, with what each wrong operator does to the output, as far as that is known."""
    found = bisect(subject.candidate, subject.inputs, subject.runtime, subject.folder)
    known, errors = subject.known, [] if found.error is None else [found.error]
    output = None
    investigation = traced.investigation if traced else None
    outputs = investigation.history.first if investigation else subject.outputs()
    named = []
    if found.error is not None:
        about = found.error, known.meaning, known.inputs, found.read, subject.runtime.name
        named = [alone_wrong(*about, candidates=found.operators)]
    elif found.joined is not None and len(found.operators) <= FEW:
        named = [_joined(subject, found, found.joined)]
    culprits = tuple(placed(subject, one) for one in named)
    if not isinstance(outputs, Failure):
        dtypes = [operator.dtype for operator in subject.candidate.specification.operators]
        output, limits = output_error(known, outputs, dtypes, errors, subject.limit)
        if output.verdict == "fail" and found.verdict == "pass":
            # the runtime shows no operator: their bounds are those on the values that PyTorch gives in float32
            own = explained_errors(reference_trace(subject.healthy, subject.inputs))
            output, limits = output_error(known, outputs, dtypes, own, subject.limit)
            culprits = tuple(placed(subject, one) for one in lost_start(subject, outputs, limits))
        culprits = with_effects(
            culprits, ErrorPropagation(known.meaning, known.inputs, seen_deviations(errors), limits)
        )
    verdict, statement = found.verdict, found.statement
    together = next((one for one in culprits if one.mechanism.name == JOINED), None)
    if together is not None and verdict != "fail":
        verdict = "fail"
        statement = f"On {subject.runtime.name} {', '.join(together.candidates)}: {together.mechanism}."
    if output is not None and output.verdict == "fail" and verdict == "pass" and culprits:
        verdict, causes = "fail", "; ".join(one.mechanism.statement for one in culprits)
        statement = f"On {subject.runtime.name} {output}: {causes}."
    elif output is not None and output.verdict == "fail" and verdict == "pass":
        verdict = "unknown"
        statement = (
            f"On {subject.runtime.name} {output}, and no part is wrong alone: try a backend that shows its operators."
        )
    return Diagnosis(
        subject.runtime.name,
        "bisection",
        why,
        verdict,
        culprits,
        statement,
        output=output,
        investigation=investigation,
        bisection=found,
        subject=subject,
    )


def _joined(subject: Subject, search: Bisection, error: LocalError) -> Culprit:
    """Return the first of a few operators that are right alone and wrong where the runtime joins them."""
    operators = {one.name: one for one in subject.candidate.specification.operators}
    first = operators[search.operators[0]]
    words = Evidence(error, {}).pattern.words if error.given.shape == error.right.shape else error.form
    evidence = (f"{error.operator.name} is wrong where {', '.join(search.operators)} are compiled together: {words}",)
    tap = Tap(first, describe(np.asarray(error.given)), np.asarray(error.given))
    causes = (Mechanism(JOINED, "each is right alone, and wrong where they are joined", evidence),)
    return wrong_at(tap, subject.runtime.name, causes, candidates=search.operators, channels=words)
