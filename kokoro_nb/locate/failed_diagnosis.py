"""The diagnosis of an export that failed: the operator that is refused, as the program calls it."""

from kokoro_nb.backends.base import Failure
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.interface_faults import RANDOM
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.known_defects import with_known_defect
from kokoro_nb.locate.mechanism import Mechanism
from kokoro_nb.locate.plain_cures import with_noise_as_input
from kokoro_nb.locate.refusal import cured_refusal, refused_operator
from kokoro_nb.locate.remedy import Remedy
from kokoro_nb.locate.subject import Subject
from kokoro_nb.traces.operators import Operator


def failed_diagnosis(failure: Failure, subject: Subject | None = None, remedies: bool = False) -> Diagnosis:
    """Return the diagnosis of a failed export, with the operator that is refused and what the runtime takes instead."""
    why = f"the export failed at '{failure.rung}', so that nothing could be measured"
    operator = None if subject is None else refused_operator(subject, failure)
    if subject is None or operator is None:
        found = () if subject is None or not remedies else cured_refusal(subject, failure, None)
        return Diagnosis(failure.backend, "export", why, "fail", (), f"{failure}.", failure, remedies=found)
    specification = subject.candidate.specification
    culprit = Culprit(
        "divergence",
        "fail",
        failure.backend,
        reference_trace(subject.candidate, subject.inputs)[operator.name],
        (operator.name,),
        channels="the export stops here",
        upstream=operator.inputs,
        mechanisms=(_mechanism(operator, failure),),
        source=specification.source_line(operator.name),
    )
    culprits = (with_known_defect(culprit, subject.candidate, failure),)
    draws = operator.kind in RANDOM
    cures = () if not remedies else (_drawn(subject),) if draws else cured_refusal(subject, failure, operator)
    line = f" at {culprit.source}" if culprit.source else ""
    statement = f"{failure.backend} refuses {operator.op} ({operator.name}){line}. {failure}."
    placed = failure.placed(operator.name, culprit.source)
    return Diagnosis(
        failure.backend, "export", why, "fail", culprits, statement, placed, remedies=cures, subject=subject
    )


def _drawn(subject: Subject) -> Remedy:
    return with_noise_as_input(subject.runtime, subject.candidate, subject.inputs, None)


def _mechanism(operator: Operator, failure: Failure) -> Mechanism:
    text = f"{failure.error}: {failure.message.splitlines()[0]}" if failure.message else failure.error
    if operator.kind in RANDOM:
        return Mechanism("baked-in random numbers", "numbers are drawn inside the program", (text,))
    return Mechanism("not supported", f"{operator.kind} as it is called here is not supported", (text,))
