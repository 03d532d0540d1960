"""Remedies, each applied and measured: float32, patches, other forms, settings of the tool, noise as an input."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from kokoro_nb.backends.artefacts import read_taps
from kokoro_nb.backends.base import Backend, Failure, loadable, quietly
from kokoro_nb.backends.called_operators import user_results
from kokoro_nb.backends.executorch.partition import Withholding
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.segment import assembled, needed_for, result_nodes
from kokoro_nb.backends.signature import Arrays, as_array
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.forms import OtherForm
from kokoro_nb.locate.investigation import Subject, reference_trace
from kokoro_nb.locate.local_error import explained_errors
from kokoro_nb.locate.output_error import LOST, OutputError, output_error
from kokoro_nb.locate.tensor_forms import FORMS, IN_FLOAT32, RUNNING, forms_of, in_other_form
from kokoro_nb.markup import listed
from kokoro_nb.patch_registry import cures, needed_patches, with_patches
from kokoro_nb.traces.trace import VIEWS, Operator, with_readers, with_sources

RemedyKind = Literal["patch", "setting", "float32 operators", "other form"]


@dataclass(frozen=True)
class Remedy:
    """One change to a program or its export, and what it does to the output.

    Attributes
    ----------
    kind : str
        ``patch`` (a named patch of the package), ``setting`` (of the export), ``float32 operators`` (which are kept in
        float32) or ``other form`` (the operator written as others that compute the same).
    name : str
        Of the patch, setting or form.
    statement : str
        What is changed, in one sentence.
    error_before, error_after : float
        Largest error of the output on the runtime, of its peak; NaN where it is not finite or did not export.
    verdict : str
        ``pass``: the output is within its limit afterwards; ``fail``: it is not; ``unknown``: it could not be measured.
    reason : str
        Why it is ``unknown``, or what is still wrong.
    outputs : dict of numpy.ndarray or None
        What the runtime gives with it, each output by its name; None where it gave nothing.
    """

    kind: RemedyKind
    name: str
    statement: str
    error_before: float
    error_after: float
    verdict: Verdict
    reason: str = ""
    outputs: Mapping[str, np.ndarray] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        figures = f"error of the output {self.error_before:.3g} of the peak before, {self.error_after:.3g} after"
        return f"{self.statement} {self.verdict}: {figures}" + (f"; {self.reason}" if self.reason else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"remedy": self.name, "kind": self.kind, "what is changed": self.statement}
        row |= {"output before (of peak)": self.error_before, "output after (of peak)": self.error_after}
        return row | {"verdict": self.verdict, "note": self.reason}


Plan = tuple[RemedyKind, str, str, Callable[[], Any]]  # kind, name, statement, and what computes the outputs


def tried(subject: Subject, plans: Iterable[Plan], before: OutputError | None = None) -> tuple[Remedy, ...]:
    """Return the remedies that were tried, in their order; the last one passes, or none does.

    Parameters
    ----------
    subject : Subject
        The program as it is; what is right is what it should compute.
    plans : iterable of Plan
        What is changed. An outcome that is a failure or a sentence says why it gives no outputs; None changes nothing.
    before : OutputError or None
        How far its output is off; None where it gives none.
    """
    size, found = float("nan") if before is None else before.of_peak, list[Remedy]()
    own = cache(lambda: explained_errors(reference_trace(subject.healthy, subject.inputs)))
    for kind, name, statement, outcome in plans:
        try:
            with quietly():
                outputs = outcome()
        except Exception as error:  # the cure of a wrong export may fail in whatever way, and that is its result
            outputs = one_line(error)
        if outputs is None:
            continue
        if isinstance(outputs, Failure | str):
            found.append(Remedy(kind, name, statement, size, float("nan"), "unknown", str(outputs)))
            continue
        after = _error(subject, outputs, own)
        reason = "" if after.verdict == "pass" else str(after)
        found.append(Remedy(kind, name, statement, size, after.of_peak, after.verdict, reason, outputs))
        if after.verdict == "pass":
            break
    return tuple(found)


def _error(subject: Subject, outputs: Mapping[str, np.ndarray], own: Callable[[], Any]) -> OutputError:
    converter = getattr(subject.runtime, "converter", subject.runtime)
    rounded = getattr(converter, "precision", "float32") != "float32"  # Core ML's own choice is float16
    dtypes = ["float16"] if rounded else [one.dtype for one in subject.candidate.specification.operators]
    after, _ = output_error(subject.known, outputs, dtypes, limit=subject.limit)
    if after.verdict == "fail" and after.of_peak <= LOST and subject.limit is None:
        after, _ = output_error(subject.known, outputs, dtypes, own())  # another order of sums may be further off
    return after


Change = tuple[RemedyKind, str, str]  # kind, name, statement
_ALIKE = "Write it as the reference has it, on inputs of the reference's length."
AS_THE_REFERENCE: Change = "other form", "the reference's form", _ALIKE
EXPORTED_ANEW: Change = "setting", "exported anew", "Export the module again, in float32 and by the installed torch."
NOISE_AS_INPUT: Change = "other form", "noise as an input", "The noise becomes an input, which the caller draws."


def in_its_place(change: Change, runtime: Backend, program: Any, inputs: Arrays, before: OutputError | None) -> Remedy:
    """Return the remedy of running another program, on inputs of its own, beside its own right outputs.

    A `program` that is a failure or a sentence says why there is none.
    """
    subject = Subject(runtime, program, program, inputs)
    return tried(subject, [(*change, partial(subject.outputs, program))], before)[0]


DRAWS = ("randn", "rand", "randn_like", "rand_like")


def with_noise_as_input(runtime: Backend, candidate: Exported, inputs: Arrays, before: OutputError | None) -> Remedy:
    """Return what it does to make inputs of the random numbers that the program draws: one draw (seed 0) for both runs.

    They are called ``noise_0``, ``noise_1``, ..., in the order of the draws. ``unknown`` where they are drawn by other
    operators than those of `DRAWS`.
    """
    program: Any
    try:
        program, inputs = _noise_given(candidate, inputs)
    except Exception as error:  # a cure never ends a diagnosis
        program = one_line(error)
    return in_its_place(NOISE_AS_INPUT, runtime, program, inputs, before)


def _noise_given(candidate: Exported, inputs: Arrays) -> tuple[Exported, dict[str, Any]]:
    names = [one.name for one in candidate.specification.operators if one.kind in DRAWS]
    if not names:
        raise InputError("The module calls no function that draws random numbers; there is no noise to make an input.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = reference_trace(candidate, inputs).values
    nodes, program = result_nodes(candidate), candidate.specification.program
    noise = {nodes[name]: f"noise_{place}" for place, name in enumerate(names)}
    outputs = dict(zip(candidate.outputs, user_results(program), strict=True))
    needed = needed_for(outputs.values(), noise) | {node for node in program.graph.nodes if node.op == "placeholder"}
    made, turned = assembled(candidate, needed, noise, outputs)
    given = {f"noise_{place}": np.transpose(drawn[name], turned[f"noise_{place}"]) for place, name in enumerate(names)}
    return replace(made, named_by=None), {**inputs, **given}


def with_needed_patches(subject: Subject) -> Iterator[Plan]:
    """Yield the patches that the runtime is known to need, all of a catalogue at once."""
    with with_patches(subject.candidate.patches):
        found = needed_patches(subject.candidate.module, subject.runtime.name)
    for names, applied in found:
        words = ", ".join(names)
        statement = f"The patch{'es' if len(names) > 1 else ''} {words} that {subject.runtime.name} needs."
        yield "patch", words, statement, partial(_patched, subject, names, applied)


def float32_region(operators: Sequence[Operator], names: Collection[str]) -> tuple[str, ...]:
    """Return operators with those that read their results, and all that lies between any of them, in execution order.

    What is kept in float32 has to be read in float32, directly or through views, and has to stay it on the way from one
    to the next: a copy between them in float16 would round again.
    """
    passing = with_readers([one for one in operators if one.kind in VIEWS], names)
    kept = {*names, *(one.name for one in operators if passing.intersection(one.inputs))}
    between = with_readers(operators, kept) & with_sources(operators, kept)
    return tuple(operator.name for operator in operators if operator.name in between)


LOSSES = ("too few bits", "accumulated phase", "overflow of the dtype")
UNEXPLAINED = ("unknown", "operators joined")


def plans(subject: Subject, culprits: tuple[Culprit, ...] = ()) -> Iterator[Plan]:
    """Yield what may cure a program.

    Parameters
    ----------
    subject : Subject
        What was diagnosed.
    culprits : tuple of Culprit
        The worst first. Where there are none, or the mechanism of one is unknown, every generic change is tried:
        float32, patches, and other forms of each kind of operator.
    """
    taps = {one.name: one for one in culprits}
    losses = [name for name, one in taps.items() if any(each.name in LOSSES for each in one.mechanisms)]
    if losses:
        over = any(one.mechanism.name == "overflow of the dtype" for one in culprits)
        yield from _in_float32(subject, [*losses, *(_beyond_float16(subject) if over else ())])
    lost = [one for one in culprits if one.mechanism.name == "lost state"]
    names = tuple(subject.candidate.specification.state)
    if lost and (runtime := with_setting(subject.runtime, saved_state=names)) is not None:
        statement = f"The first values of {listed(names)} are saved (InitializedMutableBufferPass)."
        yield "setting", "saved state", statement, partial(subject.outputs, runtime=runtime)
    wrong = tuple(dict.fromkeys(name for one in culprits if one not in lost for name in one.candidates))
    if wrong and getattr(subject.runtime, "delegate", None) == "xnnpack":
        runtime = Withholding(subject.runtime.name, withheld=wrong)
        statement = f"{listed(wrong)} is withheld from the delegate, and other kernels compute it."
        yield "setting", "withheld from the delegate", statement, partial(subject.outputs, runtime=runtime)
    kinds = dict.fromkeys(one.tap.operator.kind for one in taps.values() if one not in lost)
    for kind in kinds:
        yield from _otherwise(subject, kind, taps)
    unknown = [name for name, one in taps.items() if one.mechanism.name in UNEXPLAINED]
    if taps and not unknown:
        return
    if not losses:  # what may help whatever the mechanism is
        yield from _in_float32(subject, unknown)
    for kind in dict.fromkeys(one.kind for one in subject.candidate.specification.operators):
        if kind not in kinds:
            yield from _otherwise(subject, kind, ())


def _otherwise(subject: Subject, kind: str, wrong: Collection[str]) -> Iterator[Plan]:
    """Yield the patches and the other forms of operators of a kind, of those that are wrong first."""
    candidate = subject.candidate
    if candidate.named_by is not None:
        return  # what was planted in a program is not cured by another form of it
    for name, applied in cures(candidate.module, kind):
        statement = f"The patch {name} writes {kind} in another form."
        yield "patch", name, statement, partial(_patched, subject, [name], applied)
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
    converter = getattr(subject.runtime, "converter", None)
    converted = getattr(converter, "precision", "float32") is None  # by coremltools, whose own choice is float16
    if not converted and not any(one.dtype == "float16" for one in operators if one.name in kept or not names):
        return  # they are float32 already
    form = in_other_form(subject.candidate, sums, RUNNING) if converted else None
    ways: list[tuple[str, Exported | None, OtherForm]] = [("stay float32.", None, IN_FLOAT32[False])]
    if sums:
        ways.append(("stay float32, and running sums are computed in blocks.", form, IN_FLOAT32[True]))
    for words, program, wide in ways if kept else ():
        mixed, written = partial(_mixed, subject, kept, program), partial(_rewritten, subject, kept, wide)
        yield "float32 operators", ", ".join(kept), f"{listed(kept)} {words}", mixed if converted else written
    if not converted:
        yield "setting", "float32", "The whole model is exported in float32.", partial(_single, subject)
        return
    whole = with_setting(subject.runtime, precision="float32")
    for words, program, _ in ways:
        yield "setting", "float32", f"All operators {words}", partial(subject.outputs, program, whole)


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
    mixed = mixed_precision(form or subject.candidate, subject.inputs, kept, subject.folder)
    return subject.outputs(form, with_setting(subject.runtime, precision=mixed))


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
    return replace(subject, inputs=inputs).outputs(exported)


def _patched(subject: Subject, names: Sequence[str], applied: Any) -> Any:
    candidate = subject.candidate
    with with_patches(candidate.patches), applied(candidate.module, names) as module:
        return subject.outputs(export_program(module, subject.inputs))


def with_setting(runtime: Any, **setting: Any) -> Any | None:
    """Return a backend with another setting; None where it has that already, or has no such setting."""
    if hasattr(runtime, "converter"):
        inner = with_setting(runtime.converter, **setting)
        return None if inner is None else replace(runtime, converter=inner)
    ((name, value),) = setting.items()
    return None if getattr(runtime, name, value) == value else replace(runtime, **setting)
