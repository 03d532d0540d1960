"""One door to localisation: `diagnose` finds the wrong operators of an export, whatever its runtime shows of itself."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from kokoro_nb.backends import backend as named_backend
from kokoro_nb.backends.adopted import adopted
from kokoro_nb.backends.base import Artifact, Backend, Failure, running
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.attribution import lossy_culprits, lossy_operators, precision_mechanism
from kokoro_nb.locate.bisection import bisect
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.effect import Deviation, ErrorPropagation, deviations, seen_deviations, with_effects
from kokoro_nb.locate.halving import Search
from kokoro_nb.locate.investigation import Investigation, investigate, reference_trace
from kokoro_nb.locate.known_defects import with_known_defect
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.mechanism import Mechanism
from kokoro_nb.locate.mechanism_rules import Evidence, mechanisms
from kokoro_nb.locate.output_error import OutputError, OutputLimit, worst_output
from kokoro_nb.locate.output_limit import output_error
from kokoro_nb.locate.paired_programs import PARTED, other_program, parting
from kokoro_nb.locate.patterns import pattern
from kokoro_nb.locate.plain_cures import as_the_reference, exported_anew
from kokoro_nb.locate.subject import Subject
from kokoro_nb.traces.operators import CONSTANT, INPUT, Operator
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap, Trace

Method = Literal["auto", "tracing", "bisection"]
Precision = Literal["float32", "float64"]
RANDOM = ("rand", "rand_like", "randn", "randn_like", "normal", "bernoulli", "multinomial", "randint")
EAGER: dict[Precision, str] = {"float32": "eager", "float64": "eager-float64"}


def diagnose(
    program: Any,
    inputs: Arrays,
    backend: str | Backend = "onnxruntime",
    reference: Any = None,
    method: Method = "auto",
    precision: Precision = "float32",
    folder: str | Path | None = None,
    limit: float | None = None,
    *,
    remedies: bool = False,
    artefact: str | Path | None = None,
) -> Diagnosis:
    """Export a program to a backend, run it there, and name the operators that are wrong by themselves.

    Where the runtime shows the results of its operators, each of them is recomputed in float64 on the values that went
    into it on that runtime. Where a delegate hides them, or too few could be captured to judge, the program is cut,
    compiled in parts, and halved. An output beyond its limit is never a pass: where every operator is right for its
    dtype, the operators are named whose rounding costs the output its precision.

    Parameters
    ----------
    program : torch.nn.Module or Exported
        What is exported.
    inputs : mapping
        Name of a parameter of its forward -> example tensor.
    backend : str or Backend
        A key of `BACKENDS`, or a backend of your own.
    reference : torch.nn.Module, Exported, Trace, or pair of program and inputs, optional
        What is right, where `program` itself may be wrong; or what `reference_trace` returned. By default PyTorch
        running `program` itself. A pair: what `program` was rewritten from, with inputs of its own, which may be
        shorter; where every operator of the export is right, the two programs are compared.
    method : str
        ``auto``, ``tracing`` or ``bisection``.
    precision : str
        ``float32`` or ``float64``: what the reference is run in, against which the inherited error is measured. The
        local error is always measured against float64.
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.
    limit : float, optional
        What is allowed of the error of every output, of its peak; by default derived from how far PyTorch's own float32
        is from float64: see `output_limit`.
    remedies : bool
        Whether remedies are tried and measured where an operator is named: see `Diagnosis.try_remedies`.
    artefact : path, optional
        A file that was exported of `program`, to be looked into in place of an export: see `backends.adopted`.

    Returns
    -------
    Diagnosis
        A program that the backend cannot export is a diagnosis with that `failure`.

    Raises
    ------
    InputError
        If the inputs do not fit, the backend is unknown or cannot run here, the method is none of these, or the
        artefact is damaged or of another module.
    """
    for value, known_values in ((method, get_args(Method)), (precision, EAGER)):
        if value not in known_values:
            raise InputError(f"'{value}' is not one of {', '.join(known_values)}.")
    runtime = running(named_backend(backend) if isinstance(backend, str) else backend)
    candidate = as_exported(program, inputs, runtime.name)
    if isinstance(candidate, Failure):
        return _failed(candidate)
    if limit is not None and not limit >= 0:
        raise InputError(f"The limit of the output's error is {limit}; give a share of its peak, 0 or more.")
    pair = other_program(reference)
    reference = None if pair else reference
    file = None if artefact is None else adopted(runtime, candidate, artefact, inputs, folder)
    found = _examined(runtime, candidate, inputs, reference, method, precision, folder, limit, file)
    if pair is not None and found.verdict != "fail":
        return _rewritten(found, candidate, inputs, runtime, *pair)
    if file is not None and found.culprits and remedies:
        return replace(found, remedies=(exported_anew(runtime, candidate, inputs, found),))
    return found.try_remedies() if remedies and found.culprits and found.output is not None else found


def _examined(
    runtime: Backend,
    candidate: Exported,
    inputs: Arrays,
    reference: Any,
    method: Method,
    precision: Precision,
    folder: str | Path | None,
    limit: float | None,
    file: Artifact | None,
) -> Diagnosis:
    hidden = "" if file else _hidden(runtime)
    if method == "bisection" or (method == "auto" and hidden):
        compared = _compared_with(candidate, inputs, reference)
        subject = Subject(runtime, compared, compared, inputs, folder, limit)
        return _bisected(subject, hidden if method == "auto" else "as requested")
    known, healthy = _right(candidate, inputs, reference, precision)
    subject = Subject(runtime, candidate, healthy, inputs, folder, limit, known)
    found = investigate(candidate, inputs, runtime, known, folder, file)
    if isinstance(found, Failure):
        return _failed(found)
    traced = _traced(subject, found, method)
    missing = len(found.candidate.missing)
    if method == "auto" and traced.verdict == "unknown" and missing and file is None:
        why = f"{missing} operators could not be captured by tracing, and none of the others is wrong"
        return _bisected(replace(subject, candidate=_compared_with(candidate, inputs, known)), why, traced)
    return traced


def _rewritten(
    alone: Diagnosis, candidate: Exported, inputs: Arrays, runtime: Backend, program: Any, given: Any
) -> Diagnosis:
    """Return the diagnosis of a program whose operators are right, beside what it was rewritten from."""
    healthy = as_exported(program, given, "eager")
    if isinstance(healthy, Failure):
        raise InputError(f"The reference cannot be exported, so that nothing can be compared with it: {healthy}")
    found = parting(healthy, given, candidate, inputs, alone.backend)
    if found.output.finite == 1 and found.output.of_peak <= PARTED:
        return replace(alone, output=found.output)
    why = "every operator of the export that was judged is right by itself, and the output is not that of the reference"
    changed = replace(alone, method="comparison", why=why, output=found.output)
    if found.culprit is None:
        statement = f"The program and its reference part, and at which operator is not seen: {found.output}."
        return replace(changed, verdict="unknown", statement=statement)
    where = found.culprit.tap and found.culprit.tap.name
    statement = f"At {where} the program parts from its reference: {found.culprit.channels}; {found.output}."
    cure = as_the_reference(runtime, healthy, given, found.output)
    return replace(changed, verdict="fail", culprits=(found.culprit,), statement=statement, remedies=(cure,))


def _traced(subject: Subject, found: Investigation, method: Method) -> Diagnosis:
    """Return the diagnosis of what was traced: the wrong operators, and those whose rounding is too much."""
    outputs, dtypes = found.history.first, [tap.statistics.dtype for tap in found.candidate.taps]
    output, limits = output_error(found.reference, outputs, dtypes, found.errors, subject.limit)
    culprits = _measured(subject, found, limits)
    lossy = _lossy(found, culprits, output, limits) if output.verdict == "fail" else ()
    every = (*culprits, *(_placed(subject, one) for one in lossy))
    draws = [one for one in _meaning(found).operators if _kind(one) in RANDOM]
    if draws and not every and output.verdict == "fail" and not found.history.depends:
        every = tuple(_placed(subject, _baked(found.backend, one)) for one in draws)
    if found.history.depends and not draws:
        stale = Mechanism("stale memory", "memory that is used again and not cleared", (found.history.statement,))
        every = tuple(replace(one, mechanisms=(stale, *one.mechanisms)) for one in every)
    verdict, statement = _concluded(found, every, lossy, output, bool(draws))
    order = {operator.name: place for place, operator in enumerate(_meaning(found).operators)}
    why = f"{found.backend} shows {len(found.candidate.taps)} operators ({found.candidate.how})"
    return Diagnosis(
        found.backend,
        "tracing",
        why if method == "auto" else "as requested",
        verdict,
        tuple(sorted(every, key=lambda one: order[_name(one)])),
        statement,
        output=output,
        investigation=found,
        subject=subject,
    )


def _measured(subject: Subject, found: Investigation, limits: dict[str, OutputLimit]) -> tuple[Culprit, ...]:
    """Return all wrong operators with their source lines and what each does to the output."""
    culprits = [_placed(subject, one) for one in _ordered(found)]
    seen = _seen(found, culprits)
    for place, one in enumerate(culprits):
        if not one.mechanisms and one.kind == "nonfinite" and _name(one) in seen:
            operators = {operator.name: operator for operator in _meaning(found).operators}
            dtype = found.candidate[_name(one)].statistics.dtype
            mechanism = precision_mechanism(seen[_name(one)], operators, _name(one), dtype)
            if mechanism.name == "overflow of the dtype":
                culprits[place] = replace(one, mechanisms=(mechanism,))
    return with_effects(culprits, ErrorPropagation(_meaning(found), found.reference.inputs, seen, limits))


def _baked(backend: str, operator: Operator) -> Culprit:
    """Return an operator that draws numbers as a culprit: two calls gave the same."""
    text = "every call gives the same numbers, which are not those of PyTorch"
    return Culprit(
        "divergence",
        "fail",
        backend,
        Tap(operator, describe(np.empty(0, operator.dtype))),
        candidates=(operator.name,),
        channels="drawn once, at export",
        upstream=operator.inputs,
        reaches_output=True,
        mechanisms=(Mechanism("baked-in random numbers", "random numbers drawn at export", (text,)),),
    )


def _kind(operator: Operator) -> str:
    return operator.op.split(".")[1] if "." in operator.op else operator.op


def _placed(subject: Subject, culprit: Culprit) -> Culprit:
    """Return a culprit with the line that calls its operator, and with the known defect that it is a case of."""
    return with_known_defect(replace(culprit, source=subject.source_line(_name(culprit))), subject.candidate)


def _seen(found: Investigation, culprits: Sequence[Culprit]) -> dict[str, Deviation]:
    seen = seen_deviations(found.errors)
    others = {_name(one) for one in culprits} - set(seen)
    return seen | (deviations(_meaning(found), found.candidate, others) if others else {})


def _lossy(
    found: Investigation, culprits: Sequence[Culprit], output: OutputError, limits: dict[str, OutputLimit]
) -> tuple[Culprit, ...]:
    """Return the operators whose rounding puts the output beyond its limit, beside the wrong ones."""
    meaning, inputs = _meaning(found), found.reference.inputs
    wrong = [_name(one) for one in culprits]
    if wrong:
        explained = ErrorPropagation(meaning, inputs, _seen(found, culprits)).outputs(wrong)
        if worst_output(explained, found.history.first, limits).verdict == "pass":
            return ()  # the wrong operators explain all that is wrong with the output
    rest = {name: one for name, one in deviations(meaning, found.candidate).items() if name not in wrong}
    propagation = ErrorPropagation(meaning, inputs, rest, limits)
    names = lossy_operators(propagation)
    return lossy_culprits(names, propagation, rest, found.reference, found.candidate, found.errors)


def _concluded(
    found: Investigation, culprits: Sequence[Culprit], lossy: Sequence[Culprit], output: OutputError, draws: bool
) -> tuple[Verdict, str]:
    """Return the verdict and the result in one sentence."""
    if len(culprits) > len(lossy):
        if found.culprit.verdict == "fail":
            felt = any((one.effect or 0) > 0 for one in culprits if one.tap is found.culprit.tap)
            masked = found.culprit.reaches_output is False and not (felt and output.verdict == "fail")
            return "fail", replace(found.culprit, reaches_output=not masked).statement
        return "fail", f"On {found.backend} {_name(culprits[0])} gives the numbers that were drawn at export."
    if lossy:
        names = ", ".join(_name(one) for one in lossy[:3]) + (f" and {len(lossy) - 3} more" if len(lossy) > 3 else "")
        dtype = found.candidate[_name(lossy[0])].statistics.dtype
        return "fail", (
            f"On {found.backend} {output}. Every operator is right for {dtype}: the rounding of {names} is what the "
            f"output cannot bear."
        )
    if output.verdict == "fail" and draws:
        return "unknown", (
            f"The program draws random numbers, so that two runs on {found.backend} and in PyTorch cannot be compared; "
            "make the noise an input."
        )
    if output.verdict == "fail":
        return "unknown", (
            f"On {found.backend} {output}, and none of the operators that were captured is wrong or loses as much by "
            "rounding; try another backend, or method='bisection'."
        )
    if found.history.depends and not draws:
        return "fail", f"On {found.backend} no operator is wrong on the first call. {found.history.statement}"
    if found.culprit.verdict != "pass":
        return found.culprit.verdict, found.culprit.statement
    count = len(found.candidate.taps)
    return "pass", (
        f"No operator is wrong on {found.backend}: all {count} that were captured are finite, and right to rounding."
    )


def _meaning(found: Investigation) -> Any:
    assert found.reference.meaning is not None
    return found.reference.meaning


def _hidden(runtime: Backend) -> str:
    """Return why the results of operators cannot be captured on `runtime`; empty where they can."""
    delegate = getattr(runtime, "delegate", None)
    return f"the operators that {delegate} computes are inside its delegate, which shows no results" if delegate else ""


def _right(candidate: Exported, inputs: Arrays, reference: Any, precision: Precision) -> tuple[Trace, Exported]:
    if isinstance(reference, Trace):
        return reference, candidate
    healthy = _program(candidate, inputs, reference)
    return reference_trace(healthy, inputs, EAGER[precision]), healthy


def _program(candidate: Exported, inputs: Arrays, reference: Any) -> Exported:
    healthy = candidate if reference is None else as_exported(reference, inputs, "eager")
    if isinstance(healthy, Failure):
        raise InputError(f"The reference cannot be exported, so that nothing can be compared with it: {healthy}")
    return healthy


def _compared_with(candidate: Exported, inputs: Arrays, reference: Any) -> Exported:
    """Return `candidate` for bisection against the operators of the reference; both have to have the same ones."""
    if reference is None or candidate.named_by is not None:
        return candidate
    traced = isinstance(reference, Trace)
    meaning = reference.meaning if traced else _program(candidate, inputs, reference).specification
    if not isinstance(meaning, Specification):
        raise InputError("The reference does not say what its operators compute; take it from reference_trace.")
    names = [operator.name for operator in candidate.specification.operators]
    if [operator.name for operator in meaning.operators] != names:
        raise InputError(
            "The reference has other operators than the program, so that bisection cannot compare their parts; "
            "leave the reference out, or use a backend that shows its operators."
        )
    return replace(candidate, named_by=meaning)


def _name(culprit: Culprit) -> str:
    assert culprit.tap is not None
    return culprit.tap.name


def _ordered(found: Investigation) -> tuple[Culprit, ...]:
    """Return all culprits in the order of execution: those of the divergence, and the first non-finite one."""
    named = {one.tap.name for one in found.faults if one.tap is not None}
    nonfinite = found.nonfinite
    if nonfinite.verdict != "fail" or nonfinite.tap is None or nonfinite.tap.name in named:
        return found.faults
    order = {tap.name: place for place, tap in enumerate(found.candidate.taps)}
    return tuple(sorted((nonfinite, *found.faults), key=lambda one: order[one.tap.name] if one.tap else -1))


def _bisected(subject: Subject, why: str, traced: Diagnosis | None = None) -> Diagnosis:
    found = bisect(subject.candidate, subject.inputs, subject.runtime, subject.folder)
    known, errors = subject.known, [search.error for search in found.searches if search.error is not None]
    output = None
    investigation = traced.investigation if traced else None
    outputs = investigation.history.first if investigation else subject.outputs()
    named = (_culprit(subject, search, known) for search in found.searches if search.error is not None)
    culprits = tuple(_placed(subject, one) for one in named)
    if not isinstance(outputs, Failure):
        dtypes = [operator.dtype for operator in subject.candidate.specification.operators]
        output, limits = output_error(known, outputs, dtypes, errors, subject.limit)
        culprits = with_effects(
            culprits, ErrorPropagation(known.meaning, known.inputs, seen_deviations(errors), limits)
        )
    verdict, statement = found.verdict, found.searches[0].statement
    if output is not None and output.verdict == "fail" and verdict == "pass":
        verdict = "unknown"
        statement = (
            f"On {subject.runtime.name} {output}, and no part is wrong alone: try a backend that shows its operators."
        )
    return Diagnosis(
        subject.runtime.name,
        "bisection",
        why,
        verdict,
        culprits,
        statement,
        output=output,
        investigation=investigation,
        bisection=found,
        subject=subject,
    )


def _culprit(subject: Subject, search: Search, known: Trace) -> Culprit:
    """Return what a search found in the form that tracing gives."""
    error = search.error
    assert error is not None
    given = np.asarray(error.given)
    return Culprit(
        "divergence",
        "fail",
        subject.runtime.name,
        Tap(error.operator, describe(given), given),
        candidates=search.operators,
        channels=_pattern(error).words,
        local_error=error.of_peak,
        ratio=error.ratio,
        upstream=error.operator.inputs,
        reaches_output=True,
        mechanisms=mechanisms(Evidence(error, _pattern(error), _inputs(error, known))),
    )


def _pattern(error: LocalError) -> Any:
    with np.errstate(invalid="ignore"):
        return pattern(error.wrong, np.asarray(error.given, np.float64) - np.asarray(error.right, np.float64))


def _inputs(error: LocalError, known: Trace) -> dict[str, np.ndarray]:
    """Return what the program as it should be puts into the operator."""
    wanted = {one for one in error.operator.inputs if not one.startswith((INPUT, CONSTANT))}
    found = {
        one: np.asarray(known.inputs[one.removeprefix(INPUT)]) for one in error.operator.inputs if one.startswith(INPUT)
    }

    def keep(name: str, result: Any) -> None:
        if name in wanted:
            found[name] = np.array(result.numpy())

    if wanted:
        meaning: Any = known.meaning
        meaning.run(known.inputs, keep)
    return found


def _failed(failure: Failure) -> Diagnosis:
    why = "the program could not be exported, so that nothing could be run"
    return Diagnosis(failure.backend, "export", why, "fail", (), f"{failure}.", failure)
