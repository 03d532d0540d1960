"""Which of several operators is wrong, where a runtime shows the last of them alone: each is compiled by itself."""

import tempfile
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Backend, Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import part, real_reads
from kokoro_nb.locate.bisection import judged_alone, read_by
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.rule_evidence import Evidence, call_of
from kokoro_nb.locate.verdicts import wrong_operator
from kokoro_nb.traces.trace import Trace

MOST = 4  # operators of which one is wrong, and wrong results of which that is asked


def narrowed(
    found: tuple[Culprit, ...], runtime: Backend, candidate: Exported, reference: Trace
) -> tuple[Culprit, ...]:
    """Return the culprits; of several operators of which one is wrong, the first that is wrong alone, if one is.

    Parameters
    ----------
    found : tuple of Culprit
        What `divergences` found.
    runtime : Backend
        Where each is compiled alone.
    candidate : Exported
        The program.
    reference : Trace
        Of PyTorch, with whole tensors: what each is given.
    """
    several = [one for one in found if 1 < len(one.candidates) <= MOST][:MOST]
    alone = {id(one): _first_wrong(one, runtime, candidate, reference) for one in several}
    return tuple(alone.get(id(one)) or one for one in found)


def _first_wrong(culprit: Culprit, runtime: Backend, candidate: Exported, reference: Trace) -> Culprit | None:
    meaning: Any = reference.meaning
    values, dtype = reference.values, np.dtype("float32" if culprit.tap is None else culprit.tap.statistics.dtype)
    for operator in candidate.specification.operators:
        given = real_reads(candidate, operator.name)
        real = not operator.dtype.startswith("complex")
        if operator.name not in culprit.candidates or not real or any(one not in values for one in given):
            continue
        segment = part(candidate, given, [operator.name])
        with tempfile.TemporaryDirectory() as room:
            errors = judged_alone(segment, meaning, runtime, reference.inputs, values, room, dtype)
        if not isinstance(errors, Failure) and errors[0].unexplained:
            return _as_culprit(culprit, errors[0], reference)
    return None


def _as_culprit(culprit: Culprit, error: LocalError, reference: Trace) -> Culprit:
    meaning: Any = reference.meaning
    call = call_of(meaning, error.operator.name, reference.inputs, reference.values)
    evidence = Evidence(error, read_by(error.operator, reference.inputs, reference.values), call)
    causes = mechanisms(evidence) if error.given.shape == error.right.shape else ()
    about = {"seen_in": culprit.captured, "reaches_output": culprit.reaches_output}
    return wrong_operator(evidence, culprit.backend, mechanisms=causes or culprit.mechanisms, **about)
