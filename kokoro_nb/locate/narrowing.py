"""Which of several operators is wrong, where a runtime shows the last of them alone: each is compiled by itself."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Backend, Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import part, real_reads
from kokoro_nb.locate.bisection import judged_alone, read_by
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError
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
            about = {"seen_in": culprit.captured, "reaches_output": culprit.reaches_output}
            found = alone_wrong(errors[0], meaning, reference.inputs, values, culprit.backend, **about)
            known = found.mechanisms and errors[0].given.shape == errors[0].right.shape
            return found if known else replace(found, mechanisms=culprit.mechanisms)
    return None


def alone_wrong(
    error: LocalError, meaning: Any, inputs: Mapping[str, Any], values: Mapping[str, Any], backend: str, **about: Any
) -> Culprit:
    """Return an operator that is wrong where it is compiled alone, with the mechanisms of what it read.

    Parameters
    ----------
    error : LocalError
        Of the operator.
    meaning : Meaning
        What the operators compute.
    inputs, values : mapping
        Arrays of the inputs of the program, and of the results that the operator read.
    backend : str
        Where it was compiled.
    about : object
        What else is known: see `verdicts.wrong_operator`.
    """
    call = call_of(meaning, error.operator.name, inputs, values)
    return wrong_operator(Evidence(error, read_by(error.operator, inputs, values), call), backend, **about)
