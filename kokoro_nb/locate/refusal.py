"""Which operator a runtime refuses, the diagnosis of that, and what it takes in its place: each is tried."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from kokoro_nb.backends.base import Backend, Failure
from kokoro_nb.backends.called_operators import calls
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.failed_operator import blamed_operator
from kokoro_nb.backends.ladder import attempted, loaded, outputs_of
from kokoro_nb.backends.segment import part, real_reads, result_nodes
from kokoro_nb.errors import InputError
from kokoro_nb.locate.culprit import Mechanism, unseen_at, with_known_defect
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Subject
from kokoro_nb.locate.remedies import Plan, Remedy, plans, tried, with_needed_patches, with_noise_as_input, with_setting
from kokoro_nb.locate.tensor_forms import FORMS, forms_of, in_other_form
from kokoro_nb.traces.trace import Operator

CORE = "core operators"
MOST = 6  # operators of different kinds that are written in another form, one after the other
_NODE = re.compile(r"^at '([^']+)' \(", re.MULTILINE)  # as `backends.tvm` notes it
_GIVEN = re.compile(r"^node (\w+) \(\w+\) got \d")  # of coremltools, about how many arguments there are


def refused_operator(subject: Subject, failure: Failure) -> Operator | None:
    """Return the operator that a runtime refuses: the one its error names, else the first that it refuses alone."""
    specification = subject.candidate.specification
    blamed = blamed_operator(failure, specification)
    if failure.rung in ("patched", "exported"):
        return blamed
    # of several operators on the line that the error quotes, the first may be another than the one that it is about
    sure = blamed if blamed is not None and _named_or_alone(blamed, failure, specification) else None
    found = _noted(subject.candidate, failure) or sure or _decomposed(subject.candidate, failure)
    return found or _alone(subject, failure) or blamed


def _named_or_alone(operator: Operator, failure: Failure, specification: Any) -> bool:
    """Return whether an error names an operator, or its line calls no other."""
    line, text = specification.source_line(operator.name), f"{failure.message}\n{failure.cause}"
    others = [one for one in specification.operators if specification.source_line(one.name) == line]
    return len(others) == 1 or operator.op.partition(".")[2] in text


def _noted(candidate: Exported, failure: Failure) -> Operator | None:
    """Return the operator behind the node that the error, or a note of it, names."""
    if (node := _NODE.search(failure.log) or _GIVEN.search(failure.message)) is None:
        return None
    program = candidate.program if node.re is _GIVEN else candidate.program.run_decompositions()
    return _operator(candidate, [one for one in program.graph.nodes if one.name == node[1]])


def _decomposed(candidate: Exported, failure: Failure) -> Operator | None:
    """Return the operator whose decomposition contains the operator that the error names."""
    if not failure.operator:
        return None
    try:
        program = candidate.program.run_decompositions()
    except RuntimeError:  # of sizes that depend on values, after a vendor's export
        return None
    named = failure.operator  # TVM's importer leaves the namespace out
    return _operator(candidate, [node for name, node in calls(program) if named in (name, name.partition(".")[2])])


def _operator(candidate: Exported, nodes: Sequence[Any]) -> Operator | None:
    operators = {one.name: one for one in candidate.specification.operators}
    names = (candidate.specification.source_of(node) for node in nodes)
    return next((operators[name] for name in names if name in operators), None)


def _alone(subject: Subject, failure: Failure) -> Operator | None:
    """Return the first operator that fails alone with the same error, else the first that fails alone at all.

    None is returned where a relu fails so as well: what is installed does not go together, whatever the program.
    """
    with tempfile.TemporaryDirectory() as room:
        control = loaded(subject.runtime, torch.nn.ReLU(), {"input": torch.ones(2)}, room)
    if isinstance(control, Failure) and (control.rung, control.error) == (failure.rung, failure.error):
        return None
    other = None
    for operator in tqdm(_distinct(subject.candidate), desc="operators alone", unit="operator", leave=False):
        segment = part(subject.candidate, real_reads(subject.candidate, operator.name), [operator.name])
        shapes = {spec.name: np.ones(spec.shape, spec.held) for spec in segment.exported.inputs}
        with tempfile.TemporaryDirectory() as room:
            try:
                found = outputs_of(subject.runtime, loaded(subject.runtime, segment.exported, shapes, room), shapes)
            except Exception:  # a part that cannot be put together says nothing
                continue
        if isinstance(found, Failure):
            if (found.rung, found.error) == (failure.rung, failure.error):
                return operator
            other = other or operator
    return other


def _distinct(candidate: Exported) -> list[Operator]:
    """Return the operators, of several with equal calls the first alone."""
    nodes, specification = result_nodes(candidate), candidate.specification
    dtypes = {one.name: (one.dtype, one.shape) for one in specification.operators}
    known: dict[Any, Operator] = {}
    for one in specification.operators:
        if one.name in nodes and not one.dtype.startswith("complex"):
            read = tuple(dtypes.get(name, name) for name in one.inputs)
            known.setdefault((one.op, str(specification.numbers(one.name)), read, one.dtype, one.shape), one)
    return list(known.values())


def _plans(subject: Subject, operator: Operator | None, failure: Failure) -> Iterator[Plan]:
    """Yield what may have a runtime take a program."""
    yield from with_needed_patches(subject)
    named = re.search(r"target\.(iOS\d+)", failure.message)
    newer = named and with_setting(subject.runtime, target=named[1])
    if named and newer is not None:
        statement = f"The file is for {named[1]} and newer systems, as the error says (minimum_deployment_target)."
        yield "setting", f"target {named[1]}", statement, partial(subject.outputs, runtime=newer)
    if operator is None:
        yield from plans(subject)
    changed, names, trying = subject, list[str](), partial(attempted, subject.runtime, "run")
    while operator is not None and len(names) < MOST:
        every = [one.name for one in subject.candidate.specification.operators if one.kind == operator.kind]
        forms = forms_of(operator.kind)
        written: Any = ((form, trying(partial(in_other_form, changed.candidate, every, form))) for form in forms)
        form, candidate = next((each for each in written if isinstance(each[1], Exported)), (None, None))
        if form is None or candidate is None:
            break
        changed, names = replace(changed, candidate=candidate), [*names, form.name]
        outputs = trying(changed.outputs)
        if not isinstance(outputs, Failure):
            statement = f"{operator.kind} is written in another form: {form.statement}."
            yield "other form", ", ".join(names), statement, partial(dict, outputs)
            break
        following = refused_operator(changed, outputs)
        operator = None if following is None or following.kind == operator.kind else following
    if (runtime := with_setting(subject.runtime, core_operators=True)) is not None:
        statement = "The program is taken apart into PyTorch's core operators first (run_decompositions())."
        yield "setting", CORE, statement, partial(subject.outputs, runtime=runtime)


def supplied(exported: Exported, runtime: Backend, names: Sequence[str]) -> tuple[Exported, Any]:
    """Return a program in which operators are written in other forms, and the backend that it is for.

    Parameters
    ----------
    exported : Exported
        The program.
    runtime : Backend
        Where it is to run.
    names : sequence of str
        Names of forms, as a remedy has them (``alpha written out``), or ``core operators``, for Core ML.

    Raises
    ------
    InputError
        If there is no form of that name, or it applies to no operator of the program.
    """
    for name in names:
        if name == CORE:
            changed = with_setting(runtime, core_operators=True)
            if changed is None:
                raise InputError(f"'{CORE}' cannot be supplied to {runtime.name}; leave it out.")
            runtime = changed
        else:
            exported = _in_form(exported, name)
        exported = replace(exported, supplied=(*exported.supplied, name))
    return exported, runtime


def _in_form(exported: Exported, name: str) -> Exported:
    forms = {kind: form for kind, several in FORMS.items() for form in several if form.name == name}
    if not forms:
        known = ", ".join(sorted({form.name for several in FORMS.values() for form in several}))
        raise InputError(f"There is nothing called '{name}' to supply; there is: {CORE}, {known}.")
    changed = exported
    for kind, form in forms.items():
        every = [one.name for one in exported.specification.operators if one.kind == kind]
        changed = in_other_form(changed, every, form) or changed
    if changed is exported:
        raise InputError(f"'{name}' applies to no operator of the program ({', '.join(forms)}); leave it out.")
    return changed


def failed_diagnosis(failure: Failure, subject: Subject | None = None, remedies: bool = False) -> Diagnosis:
    """Return the diagnosis of a failed export, with the operator that is refused and what the runtime takes instead."""
    why = f"the export failed at '{failure.rung}', so that nothing could be measured"
    operator = None if subject is None else refused_operator(subject, failure)
    cures: tuple[Remedy, ...] = ()
    if remedies and subject is not None and operator is not None and operator.draws:
        cures = (with_noise_as_input(subject.runtime, subject.candidate, subject.inputs, None),)
    elif remedies and subject is not None:
        cures = tried(subject, _plans(subject, operator, failure))
    if subject is None or operator is None:
        statement = f"{failure}."
        if failure.source:
            statement = f"torch.export refuses the module at {failure.source} ({failure.as_dict()['error']})."
        return Diagnosis(failure.backend, "export", why, "fail", (), statement, failure, remedies=cures)
    source = subject.candidate.specification.source_line(operator.name)
    culprit = unseen_at(operator, failure.backend, _mechanism(operator, failure), "the export stops here")
    culprit = replace(culprit, reaches_output=None, source=source)
    found = (with_known_defect(culprit, subject.candidate, failure),)
    line = f" at {source}" if source else ""
    statement = f"{failure.backend} refuses {operator.op} ({operator.name}){line}. {failure}."
    placed = replace(failure, place=operator.name, source=source)
    return Diagnosis(failure.backend, "export", why, "fail", found, statement, placed, remedies=cures, subject=subject)


def _mechanism(operator: Operator, failure: Failure) -> Mechanism:
    text = (failure.cause or f"{failure.error}: {failure.message}").splitlines()[0]
    if operator.draws:
        return Mechanism("baked-in random numbers", "numbers are drawn inside the program", (text,))
    return Mechanism("not supported", f"{operator.kind} as it is called here is not supported", (text,))
