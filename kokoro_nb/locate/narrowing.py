"""Which of several operators is wrong, where a runtime shows the last of them alone: each is compiled by itself."""

import tempfile
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Backend, Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.backends.segment import part
from kokoro_nb.locate.bisection import judged_results
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.rule_evidence import Evidence
from kokoro_nb.locate.verdicts import wrong_operator
from kokoro_nb.traces.operators import CONSTANT, INPUT
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
    order = [one.name for one in candidate.specification.operators if one.name in culprit.candidates]
    for name in order:
        error = _alone(name, runtime, candidate, reference, _dtype(culprit))
        if error is not None and error.unexplained:
            return _as_culprit(culprit, error, reference)
    return None


def _dtype(culprit: Culprit) -> np.dtype:
    return np.dtype("float32" if culprit.tap is None else culprit.tap.statistics.dtype)


def _alone(name: str, runtime: Backend, candidate: Exported, reference: Trace, dtype: np.dtype) -> LocalError | None:
    """Return the error of an operator that is compiled alone and given what PyTorch gives; None if it is refused.

    `dtype` is that in which the runtime computes: what a model of one operator gives may be held in a wider one.
    """
    operator = next(one for one in candidate.specification.operators if one.name == name)
    given = [one for one in operator.inputs if not one.startswith((INPUT, CONSTANT))]
    values = reference.values
    if any(one not in values for one in given):
        return None
    segment = part(candidate, given, [name])
    inputs = segment.inputs(reference.inputs, values)
    with tempfile.TemporaryDirectory() as room:
        outputs = outputs_of(runtime, loaded(runtime, segment.exported, inputs, room), inputs)
    if isinstance(outputs, Failure):
        return None
    meaning: Any = reference.meaning
    fed = {one: values[one] for one in given}
    taken = segment.taken(outputs)
    held = {
        one: value.astype(dtype) if {dtype.kind, value.dtype.kind} == {"f"} else value for one, value in taken.items()
    }
    (error,) = judged_results(meaning, reference.inputs, fed, held)
    return error


def _as_culprit(culprit: Culprit, error: LocalError, reference: Trace) -> Culprit:
    read = [one for one in error.operator.inputs if not one.startswith(CONSTANT)]
    known = {one: reference.inputs[one.removeprefix(INPUT)] for one in read if one.startswith(INPUT)}
    known |= {one: reference.values[one] for one in read if not one.startswith(INPUT)}
    evidence = Evidence(error, known)
    causes = mechanisms(evidence) if error.given.shape == error.right.shape else ()
    about = {"seen_in": culprit.captured, "reaches_output": culprit.reaches_output}
    return wrong_operator(evidence, culprit.backend, mechanisms=causes or culprit.mechanisms, **about)
