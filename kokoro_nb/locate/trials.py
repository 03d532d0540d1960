"""Remedies of a diagnosis to try: float32 for some operators, a patch, another form, a setting of the tool."""

from collections.abc import Collection, Iterator, Sequence
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
from kokoro_nb.locate.forms import DECOMPOSED, PARTS, OtherForm, arithmetic, called, functions, indexing, summing
from kokoro_nb.locate.forms.summing import RUNNING
from kokoro_nb.locate.investigation import Subject
from kokoro_nb.locate.remedies import Plan
from kokoro_nb.markup import listed
from kokoro_nb.patch_registry import cures, with_patches
from kokoro_nb.traces.trace import VIEWS, Operator, with_readers, with_sources

FORMS: dict[str, tuple[OtherForm, ...]] = arithmetic.FORMS | functions.FORMS | indexing.FORMS | summing.FORMS


def forms_of(kind: str) -> tuple[OtherForm, ...]:
    """Return the other forms of operators of a kind, those of this package first."""
    return tuple(dict.fromkeys((*FORMS.get(kind, ()), DECOMPOSED)))


def in_other_form(exported: Exported, names: Collection[str], form: OtherForm) -> Exported | None:
    """Return a program in which the operators `names` are written in another form; None where none could be."""
    program, results = copied_program(exported)
    written = [_written(program, results[name], form, name) for name in names if name in results]
    if form in IN_FLOAT32.values():
        _unround(program.graph, [node for node in written if node is not None])
    return with_program(exported, program) if any(written) else None


def _unround(graph: Any, written: Collection[Any]) -> None:
    """Have operators in float32 read what one gives another before it is rounded to float16."""
    for rounded in written:
        wide = rounded.args[0]
        for reader in [*rounded.users]:
            if reader.target == rounded.target and reader.meta["val"].dtype == wide.meta["val"].dtype:
                reader.replace_all_uses_with(wide)
                graph.erase_node(reader)
        if not rounded.users:
            graph.erase_node(rounded)


def _written(program: Any, node: Any, form: OtherForm, name: str) -> Any:
    """Write one operator in another form and return the node with its result, or None."""
    site = FaultSite(program, node, name)
    result = form.write(site)
    if result is None:
        return None
    site.give(result)
    program.graph.erase_node(node)
    for part in site.made if form is PARTS else ():
        kind = str(part.target).partition(".")[2].partition(".")[0]
        further = next(filter(None, (_written(program, part, one, name) for one in FORMS.get(kind, ()))), None)
        result = further if further is not None and part is result else result
    return result


def float32_region(operators: Sequence[Operator], names: Collection[str]) -> tuple[str, ...]:
    """Return operators with those that read their results, and all that lies between any of them, in execution order.

    What is kept in float32 has to be read in float32, directly or through views, and has to stay it on the way from one
    to the next: a copy between them in float16 would round again.
    """
    passing = with_readers([one for one in operators if one.kind in VIEWS], names)
    kept = {*names, *(one.name for one in operators if passing.intersection(one.inputs))}
    between = with_readers(operators, kept) & with_sources(operators, kept)
    return tuple(operator.name for operator in operators if operator.name in between)


def _wide(op: Any, result: Any, blocks: bool, **given: Any) -> Any:
    """Return what a float16 operator gives in float32, rounded; with `blocks` running sums are computed in blocks."""
    import torch

    if result.dtype != torch.float16:
        return None

    def widened(one: Any) -> Any:
        if one is torch.float16:
            return torch.float32
        return one.float() if isinstance(one, torch.Tensor) and one.dtype == torch.float16 else one

    wide = dict(torch.fx.node.map_aggregate(given, widened))
    return (RUNNING.function(**wide) if blocks and "cumsum" in str(op) else called(op, op, wide)).half()


IN_FLOAT32 = {
    blocks: OtherForm("float32", "it computes in float32", partial(_wide, blocks=blocks)) for blocks in (False, True)
}
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
            if chosen is names or set(every) != set(names):
                statement = f"{words} is written in another form: {form.statement}."
                yield "other form", form.name, statement, partial(_rewritten, subject, chosen, form)


def _rewritten(subject: Subject, names: Collection[str], form: OtherForm) -> Any:
    """Return the outputs of a program with operators in another form; None where that is of no such operators."""
    changed = in_other_form(subject.candidate, names, form)
    return None if changed is None else subject.outputs(changed)


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
        outcome = mixed if chosen else partial(_rewritten, subject, kept, IN_FLOAT32[blocks])
        yield "float32 operators", ", ".join(kept), f"{listed(kept)} {words}", outcome
    if not chosen:
        yield "setting", "float32", "The whole model is exported in float32.", lambda: _single(subject)
        return
    whole = replace(subject.runtime, converter=replace(converter, precision="float32"))  # type: ignore[type-var]
    for blocks, words in ways:
        outcome = partial(subject.outputs, form if blocks else None, whole)
        yield "setting", "float32", f"All operators {words}", outcome


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
