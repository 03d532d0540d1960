"""Remedies for the culprits of a diagnosis, each applied and measured on the runtime; the first that does ends it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import as_array
from kokoro_nb.errors import one_line
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.forms import OtherForm
from kokoro_nb.locate.forms.summing import RUNNING
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.local_error import explained_errors
from kokoro_nb.locate.other_forms import FORMS, float32_region, in_other_form, kept_in_float32
from kokoro_nb.locate.output_error import OutputError, OutputLimit, output_error, worst_output
from kokoro_nb.locate.precision.degradation import LOST
from kokoro_nb.locate.remedies import Remedy, RemedyKind
from kokoro_nb.locate.subject import Subject
from kokoro_nb.patch_registry import cures, with_patches

Outcome = Callable[[], Any]  # computes the outputs with the remedy, or returns a failure
Plan = tuple[RemedyKind, str, str, Outcome]
LOSSES = ("too few bits", "accumulated phase", "overflow of the dtype")


def tried(subject: Subject, culprits: tuple[Culprit, ...], output: OutputError) -> tuple[Remedy, ...]:
    """Return the remedies that were tried, in their order; the last one passes, or none does.

    Parameters
    ----------
    subject : Subject
        What was diagnosed.
    culprits : tuple of Culprit
        The worst first.
    output : OutputError
        How far the output is off, with its limit.
    """
    found = []
    known: Any = subject.known
    right = known.meaning.run(known.inputs, double=True)
    limits = dict.fromkeys(right, OutputLimit(output.limit, output.basis))
    explained = cache(lambda: explained_errors(reference_trace(subject.healthy, subject.inputs)))
    for kind, name, statement, outcome in _plans(subject, culprits):
        try:
            with quietly():
                outputs = outcome()
        except Exception as error:  # the cure of a sick export may fail in whatever way, and that is its result
            outputs = one_line(error)
        if isinstance(outputs, Failure | str):
            found.append(Remedy(kind, name, statement, output.of_peak, float("nan"), "unknown", str(outputs)))
            continue
        after = worst_output(right, outputs, limits)
        if after.verdict == "fail" and after.of_peak <= LOST and subject.limit is None:
            # what was sick had the limit of PyTorch's own rounding; another order of sums may be further off
            dtypes = [operator.dtype for operator in subject.candidate.specification.operators]
            after, _ = output_error(known, outputs, dtypes, explained())
        reason = "" if after.verdict == "pass" else str(after)
        found.append(
            Remedy(kind, name, statement, output.of_peak, after.of_peak, after.verdict, reason, outputs=outputs)
        )
        if after.verdict == "pass":
            break
    return tuple(found)


def _plans(subject: Subject, culprits: tuple[Culprit, ...]) -> Iterator[Plan]:
    candidate = subject.candidate
    own = candidate.named_by is None  # what was planted in a program is not cured by another form of it
    losses = [one for one in culprits if one.mechanism.name in LOSSES and one.tap is not None]
    operators = {one.tap.name: one.tap.operator for one in culprits if one.tap is not None}
    if losses:
        names = [one.tap.name for one in losses if one.tap is not None]
        if any(one.mechanism.name == "overflow of the dtype" for one in losses):
            names += _beyond_float16(subject)
        yield from _in_float32(subject, names)
    for kind in dict.fromkeys(one.kind for one in operators.values()) if own else ():
        for name, applied in cures(candidate.module, kind):
            statement = f"The patch {name} writes {kind} in another form."
            yield "patch", name, statement, partial(_patched, subject, name, applied)
        names = [name for name, one in operators.items() if one.kind == kind]
        every = [one.name for one in candidate.specification.operators if one.kind == kind]
        for form in FORMS.get(kind, ()):
            for chosen, words in ((names, _listed(names)), (every, f"every {kind}")):
                outcome = _form(subject, chosen, form)
                if outcome is not None and (chosen is names or set(chosen) != set(names)):
                    statement = f"{words} is written in another form: {form.statement}."
                    yield "other form", form.name, statement, outcome


def _in_float32(subject: Subject, names: list[str]) -> Iterator[Plan]:
    operators = subject.candidate.specification.operators
    kept = float32_region(operators, names)
    sums = [one.name for one in operators if one.name in kept and one.kind == "cumsum"]
    ways: list[tuple[bool, str]] = [(False, "stay float32.")]
    ways += [(True, "stay float32, and running sums are computed in blocks.")] if sums else []
    converter = getattr(subject.runtime, "converter", None)
    if getattr(converter, "precision", "float32") is not None:  # None: coremltools' default, float16
        if not any(one.dtype == "float16" for one in operators if one.name in kept):
            return  # they are float32 already
        for blocks, words in ways:
            statement = f"{_listed(kept)} {words}"
            yield "float32 operators", ", ".join(kept), statement, partial(_widened, subject, kept, blocks)
        yield "setting", "float32", "The whole model is exported in float32.", lambda: _single(subject)
        return
    whole = replace(subject.runtime, converter=replace(converter, precision="float32"))  # type: ignore[type-var]
    summed = in_other_form(subject.candidate, sums, RUNNING)
    forms = [(words, summed if blocks else None) for blocks, words in ways]
    for words, form in forms:
        yield "float32 operators", ", ".join(kept), f"{_listed(kept)} {words}", partial(_mixed, subject, kept, form)
    for words, form in forms:
        yield "setting", "float32", f"All operators {words}", partial(subject.outputs, form, whole)


def _widened(subject: Subject, kept: tuple[str, ...], blocks: bool) -> Any:
    changed = kept_in_float32(subject.candidate, kept, blocks)
    return "none of these operators is float16 in the program" if changed is None else subject.outputs(changed)


def _beyond_float16(subject: Subject) -> list[str]:
    """Return the operators whose results float16 cannot hold."""
    largest, found = float(np.finfo(np.float16).max), []
    known: Any = subject.known

    def look(name: str, result: Any) -> None:
        if result.is_floating_point() and result.numel() and float(result.abs().max()) > largest:
            found.append(name)

    known.meaning.run(known.inputs, look, double=True)
    return found


def _mixed(subject: Subject, kept: tuple[str, ...], form: Exported | None) -> Any:
    """Return the outputs of a Core ML file in which these operators, by their names in eager, stay float32."""
    from kokoro_nb.backends.coreml.conversion import MixedPrecision
    from kokoro_nb.locate.precision.lens import converted

    runtime: Any = subject.runtime
    names = converted(form or subject.candidate, subject.inputs, subject.folder).names
    mixed = MixedPrecision(tuple(own for own, eager in names.items() if eager in kept))
    return subject.outputs(form, replace(runtime, converter=replace(runtime.converter, precision=mixed)))


def _single(subject: Subject) -> Any:
    """Return the outputs of the module in float32, from the inputs in float32."""
    import copy

    arrays = {name: as_array(name, value) for name, value in subject.inputs.items()}
    inputs = {name: one.astype(np.float32) if one.dtype == np.float16 else one for name, one in arrays.items()}
    with with_patches(subject.candidate.patches):
        exported = export_program(copy.deepcopy(subject.candidate.module).float(), inputs)
    if isinstance(exported, Failure):
        return exported
    return replace(subject, inputs=inputs).outputs(exported)


def _patched(subject: Subject, name: str, applied: Any) -> Any:
    candidate = subject.candidate
    with with_patches(candidate.patches), applied(candidate.module, [name]) as module:
        exported: Exported | Failure = export_program(module, subject.inputs)
        return exported if isinstance(exported, Failure) else subject.outputs(exported)


def _form(subject: Subject, names: list[str], form: OtherForm) -> Outcome | None:
    """Return what computes the outputs with these operators in another form; None where it applies to none of them."""
    try:
        changed = in_other_form(subject.candidate, names, form)
    except Exception as error:  # it is written for operators as they are called; one called in another way is no cure
        return partial(str, f"{type(error).__name__}: {error}")
    return None if changed is None else partial(subject.outputs, changed)


def _listed(names: Any) -> str:
    names = list(names)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
