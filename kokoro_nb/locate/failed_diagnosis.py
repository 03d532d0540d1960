"""The diagnosis of an export that failed: the operator that the error names, as the program calls it."""

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.failed_operator import blamed_operator
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.known_defects import with_known_defect
from kokoro_nb.locate.mechanism import UNKNOWN, Mechanism
from kokoro_nb.traces.operators import Operator

RANDOM = ("rand", "randn", "rand_like", "randn_like", "normal", "bernoulli", "dropout")


def failed_diagnosis(failure: Failure, candidate: Exported | None = None, inputs: Arrays | None = None) -> Diagnosis:
    """Return the diagnosis of a failed export, with the first operator that the error names as the culprit."""
    why = f"the program fell from the rung '{failure.rung}', so that nothing could be measured"
    operator = None if candidate is None else blamed_operator(failure, candidate.specification)
    culprits: tuple[Culprit, ...] = ()
    if operator is not None and candidate is not None and inputs is not None:
        culprit = Culprit(
            "divergence",
            "fail",
            failure.backend,
            reference_trace(candidate, inputs)[operator.name],
            (operator.name,),
            channels="the export stops here",
            upstream=operator.inputs,
            mechanisms=(_mechanism(operator, failure),),
            source=candidate.specification.source_line(operator.name),
        )
        culprits = (with_known_defect(culprit, candidate),)
    return Diagnosis(failure.backend, "export", why, "fail", culprits, f"{failure}.", failure)


def _mechanism(operator: Operator, failure: Failure) -> Mechanism:
    if operator.kind not in RANDOM:
        return UNKNOWN
    text = f"{failure.error}: {failure.message.splitlines()[0]}" if failure.message else failure.error
    return Mechanism("baked-in random numbers", "numbers are drawn inside the program", (text,))
