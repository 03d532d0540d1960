"""Remedies of a diagnosis to try: float32 for some operators, a patch, another form, a setting of the tool."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure, loadable
from kokoro_nb.backends.executorch.partition import Withholding
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import Arrays, as_array
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.faults.kinds import FaultSite
from kokoro_nb.faults.planting import copied_program, with_program
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.forms import DECOMPOSED, OtherForm, added, arithmetic, functions, indexing, summing
from kokoro_nb.locate.forms.summing import RUNNING
from kokoro_nb.locate.investigation import Subject
from kokoro_nb.locate.remedies import Plan
from kokoro_nb.markup import listed
from kokoro_nb.patch_registry import cures, with_patches
from kokoro_nb.traces.trace import VIEWS, Operator

FORMS: dict[str, tuple[OtherForm, ...]] = arithmetic.FORMS | functions.FORMS | indexing.FORMS | summing.FORMS


def forms_of(kind: str) -> tuple[OtherForm, ...]:
    """Return the other forms of operators of a kind, those of this package first."""
    return tuple(dict.fromkeys((*FORMS.get(kind, ()), DECOMPOSED)))


def in_other_form(exported: Exported, names: Collection[str], form: OtherForm) -> Exported | None:
    """Return a program in which the operators `names` are written in another form; None where none could be."""
    program, results = copied_program(exported)
    changed = False
    for name in names:
        node = results[name]
        site = FaultSite(program, node, name)
        result = form.write(site)
        if result is not None:
            site.give(result)
            program.graph.erase_node(node)
            changed = True
    return with_program(exported, program) if changed else None


def float32_region(operators: Collection[Operator], names: Collection[str]) -> tuple[str, ...]:
    """Return operators with those that read their results, and all that lies between any of them, in execution order.

    What is kept in float32 has to be read in float32, directly or through views, and has to stay it on the way from one
    to the next: a copy between them in float16 would round again.
    """
    kept, passing = set(names), set(names)
    for operator in operators:
        if passing.intersection(operator.inputs):
            kept.add(operator.name)
            if operator.kind in VIEWS:
                passing.add(operator.name)
    after, before = set(kept), set(kept)
    for operator in operators:
        if after.intersection(operator.inputs):
            after.add(operator.name)
    for operator in reversed([*operators]):
        if operator.name in before:
            before.update(operator.inputs)
    return tuple(operator.name for operator in operators if operator.name in after & before)


def kept_in_float32(exported: Exported, names: Collection[str], blocks: bool) -> Exported | None:
    """Return a program in which the float16 operators `names` compute in float32; None where there are none.

    What one of them gives to another stays float32 on the way; what others read is rounded to float16. With `blocks`
    running sums are computed in blocks.
    """
    import torch

    program, results = copied_program(exported)
    wide: dict[Any, Any] = {}
    cast = torch.ops.aten._to_copy.default
    chosen = {results[name] for name in names if name in results}
    for node in [one for one in program.graph.nodes if one in chosen]:
        site = FaultSite(program, node, node.name)
        if node.meta["val"].dtype != torch.float16 or site.is_element:
            continue

        def widened(argument: Any, site: FaultSite = site) -> Any:
            if argument in wide:
                return wide[argument]
            if argument.meta["val"].dtype != torch.float16:
                return argument
            return site.emit(cast, argument, ahead=True, dtype=torch.float32)

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), widened)
        kwargs = {key: torch.float32 if value is torch.float16 else value for key, value in kwargs.items()}
        if blocks and site.op == "aten.cumsum.default":
            result = added(site, summing.RUNNING.function, self=args[0], dim=args[1])
        else:
            result = site.emit(node.target, *args, **kwargs)
        rounded = site.emit(cast, result, dtype=torch.float16)
        site.give(rounded)
        program.graph.erase_node(node)
        wide[rounded] = result
    if not wide:
        return None
    for rounded in wide:
        if not rounded.users:
            program.graph.erase_node(rounded)
    return with_program(exported, program)


LOSSES = ("too few bits", "accumulated phase", "overflow of the dtype")
UNEXPLAINED = ("unknown", "operators joined")


def plans(subject: Subject, culprits: tuple[Culprit, ...]) -> Iterator[Plan]:
    """Yield what may cure a program.

    Parameters
    ----------
    subject : Subject
        What was diagnosed.
    culprits : tuple of Culprit
        The worst first. Where there are none, or the mechanism of one is unknown, every generic change is tried.
    """
    taps = {one.tap.name: one for one in culprits if one.tap is not None}
    losses = [name for name, one in taps.items() if one.mechanism.name in LOSSES]
    if losses:
        over = any(one.mechanism.name == "overflow of the dtype" for one in culprits)
        yield from _in_float32(subject, [*losses, *(_beyond_float16(subject) if over else ())])
    lost = [one for one in culprits if one.mechanism.name == "lost state"]
    if lost and hasattr(subject.runtime, "saved_state"):
        names = tuple(subject.candidate.specification.state)
        runtime: Any = replace(subject.runtime, saved_state=names)  # type: ignore[type-var]
        statement = f"The first values of {listed(names)} are saved (InitializedMutableBufferPass)."
        yield "setting", "saved state", statement, partial(subject.outputs, runtime=runtime)
    wrong = tuple(dict.fromkeys(name for one in culprits if one not in lost for name in one.candidates))
    if wrong and getattr(subject.runtime, "delegate", None) == "xnnpack":
        runtime = Withholding(subject.runtime.name, withheld=wrong)
        statement = f"{listed(wrong)} is withheld from the delegate, and other kernels compute it."
        yield "setting", "withheld from the delegate", statement, partial(subject.outputs, runtime=runtime)
    kinds = dict.fromkeys(one.tap.operator.kind for one in taps.values() if one not in lost and one.tap)
    for kind in kinds:
        yield from _otherwise(subject, kind, taps)
    unknown = [name for name, one in taps.items() if one.mechanism.name in UNEXPLAINED]
    if unknown or not taps:
        yield from generic(subject, unknown, kinds, float32=not losses)


def generic(
    subject: Subject, names: Collection[str] = (), known: Collection[str] = (), float32: bool = True
) -> Iterator[Plan]:
    """Yield what may help whatever the mechanism is: float32, patches, and other forms of each kind of operator.

    Parameters
    ----------
    names : collection of str
        Operators that are known to be wrong, which are kept in float32 alone first.
    known : collection of str
        Kinds of operators whose other forms were tried.
    float32 : bool
        Whether float32 is tried.
    """
    if float32:
        yield from _in_float32(subject, names)
    for kind in dict.fromkeys(one.kind for one in subject.candidate.specification.operators):
        if kind not in known:
            yield from _otherwise(subject, kind, ())


def _otherwise(subject: Subject, kind: str, wrong: Collection[str]) -> Iterator[Plan]:
    """Yield the patches and the other forms of operators of a kind, of those that are wrong first."""
    candidate = subject.candidate
    if candidate.named_by is not None:
        return  # what was planted in a program is not cured by another form of it
    for name, applied in cures(candidate.module, kind):
        statement = f"The patch {name} writes {kind} in another form."
        yield "patch", name, statement, partial(_patched, subject, name, applied)
    every = [one.name for one in candidate.specification.operators if one.kind == kind]
    names = [one for one in wrong if one in every]
    for form in forms_of(kind) if names else FORMS.get(kind, ()):
        for chosen, words in ((names, listed(names)), (every, f"every {kind}")):
            if chosen is every and set(every) == set(names):
                continue
            try:
                changed = in_other_form(candidate, chosen, form)
            except Exception as error:  # it is written for operators as they are called; in another way is no cure
                outcome: Any = partial(str, f"{type(error).__name__}: {error}")
            else:
                outcome = changed and partial(subject.outputs, changed)
            if outcome is not None:
                yield "other form", form.name, f"{words} is written in another form: {form.statement}.", outcome


def _in_float32(subject: Subject, names: Collection[str]) -> Iterator[Plan]:
    """Yield these operators in float32, and the whole model, where it is in fewer bits."""
    operators = subject.candidate.specification.operators
    kept = float32_region(operators, names)
    sums = [one.name for one in operators if one.name in kept and one.kind == "cumsum"]
    ways = [(False, "stay float32.")]
    ways += [(True, "stay float32, and running sums are computed in blocks.")] if sums else []
    converter = getattr(subject.runtime, "converter", None)
    chosen = getattr(converter, "precision", "float32") is None  # coremltools' default, float16
    if not chosen and not any(one.dtype == "float16" for one in operators if one.name in kept or not names):
        return  # they are float32 already
    form = in_other_form(subject.candidate, sums, RUNNING) if chosen else None
    for blocks, words in ways if kept else ():
        mixed = partial(_mixed, subject, kept, form if blocks else None)
        outcome = mixed if chosen else partial(_widened, subject, kept, blocks)
        yield "float32 operators", ", ".join(kept), f"{listed(kept)} {words}", outcome
    if not chosen:
        yield "setting", "float32", "The whole model is exported in float32.", lambda: _single(subject)
        return
    whole = replace(subject.runtime, converter=replace(converter, precision="float32"))  # type: ignore[type-var]
    for blocks, words in ways:
        outcome = partial(subject.outputs, form if blocks else None, whole)
        yield "setting", "float32", f"All operators {words}", outcome


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
    runtime: Any = subject.runtime
    mixed = mixed_precision(form or subject.candidate, subject.inputs, kept, subject.folder)
    return subject.outputs(form, replace(runtime, converter=replace(runtime.converter, precision=mixed)))


def mixed_precision(exported: Exported, inputs: Arrays, kept: Collection[str], folder: str | Path | None) -> Any:
    """Return the precision of a Core ML file in which some operators stay float32: a `MixedPrecision`.

    An operator of the file that is no result of one in eager stays float32 with the first operator that reads it.

    Parameters
    ----------
    exported : Exported
        The program.
    inputs : mapping
        Its inputs.
    kept : collection of str
        Names of operators in eager, as a diagnosis names them.
    folder : path or None
        Where artefacts are kept.

    Raises
    ------
    InputError
        If the program cannot be converted.
    """
    from kokoro_nb.backends.coreml import CoreMl
    from kokoro_nb.backends.coreml.conversion import MixedPrecision
    from kokoro_nb.backends.mil import load_program

    made = loadable(CoreMl("coreml-float32", precision="float32").export(exported, inputs, folder), "coreml-float32")
    assert made.path is not None
    own = {value: name for name, value in read_taps(made.folder).places.items()}
    names: dict[str, str] = {}
    for operation in reversed(load_program(made.path).program.functions["main"].operations):
        for one in operation.outputs if operation.op_type != "const" else ():
            reader = one.child_ops[0].outputs[0].name if one.child_ops else ""
            names[one.name] = own.get(one.name) or names.get(reader, "")
    return MixedPrecision(tuple(name for name, eager in reversed(names.items()) if eager in kept))


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
