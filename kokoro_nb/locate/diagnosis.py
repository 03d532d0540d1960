"""One door to localisation: `diagnose` finds the wrong operators of an export, whatever its runtime shows of itself."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from kokoro_nb import markup
from kokoro_nb.backends import backend as named_backend
from kokoro_nb.backends.base import Backend, Failure, running
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.bisection import bisect
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.culprit_bundle import write_finding_bundle
from kokoro_nb.locate.effect import ErrorPropagation, with_effects
from kokoro_nb.locate.halving import Bisection, Search
from kokoro_nb.locate.investigation import Investigation, investigate, reference_trace
from kokoro_nb.locate.output_error import OutputError, worst_output
from kokoro_nb.locate.remedy import Remedy
from kokoro_nb.storage import json_ready, write_text
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap, Trace

Method = Literal["auto", "tracing", "bisection"]
Precision = Literal["float32", "float64"]
EAGER: dict[Precision, str] = {"float32": "eager", "float64": "eager-float64"}


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found out about one program on one backend.

    Attributes
    ----------
    backend : str
        Name of the backend.
    method, why : str
        ``tracing`` (every operator that the runtime shows is recomputed in float64 on its own inputs), ``bisection``
        (parts are compiled alone and halved) or ``export`` (nothing could be run), and the reason for that choice.
    verdict : str
        ``fail``: an operator is wrong, or the export failed. ``pass``: none is wrong. ``unknown``: the output is wrong
        and no single operator is, or some operators could not be judged.
    culprits : tuple of Culprit
        Every operator that is wrong by itself, in the order of execution.
    statement : str
        The result in one sentence.
    failure : Failure or None
        Where the export failed, with the exact error.
    output : OutputError or None
        How far the whole output is off; None where nothing could be run.
    remedies : tuple of Remedy
        What was tried as a cure, with the error of the output before and after: see `try_remedies`.
    investigation : Investigation or None
        All measured figures of tracing.
    bisection : Bisection or None
        All steps of bisection.
    """

    backend: str
    method: str
    why: str
    verdict: Verdict
    culprits: tuple[Culprit, ...]
    statement: str
    failure: Failure | None = None
    output: OutputError | None = None
    remedies: tuple[Remedy, ...] = ()
    investigation: Investigation | None = field(default=None, repr=False)
    bisection: Bisection | None = field(default=None, repr=False)
    _programs: tuple[Exported, Exported] | None = field(default=None, repr=False)
    _reference: Trace | None = field(default=None, repr=False)

    @property
    def first(self) -> Culprit | None:
        """The culprit that is executed first; None if no operator was named."""
        return self.culprits[0] if self.culprits else None

    @property
    def ranked(self) -> tuple[Culprit, ...]:
        """The culprits by what they do to the output, the largest effect first; those of unknown effect come last."""
        return tuple(sorted(self.culprits, key=_severity, reverse=True))

    def worst(self, n: int = 5) -> tuple[Culprit, ...]:
        """Return the `n` culprits with the largest effect on the output: the first of `ranked`."""
        return self.ranked[:n]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each culprit, the largest effect first, with units in the names of its columns."""
        order = {one.tap.name: place for place, one in enumerate(self.culprits, 1) if one.tap is not None}
        return [
            {
                "executed": one.tap and order[one.tap.name],
                "operator": one.tap and one.tap.name,
                "op": one.tap and one.tap.op,
                "line": one.source,
                "wrong": one.channels,
                "effect (of the output's error)": one.effect,
                "local error (of peak)": one.local_error,
                "inherited error (of peak)": one.inherited_error,
                "local error / rounding": one.ratio,
                "mechanism": one.mechanism.name,
                "evidence": str(one.mechanism),
                "known defect": one.mechanism.defect or "",
                "threads": ", ".join(one.mechanism.threads),
            }
            for one in self.ranked
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON holds."""
        found: dict[str, Any] = {"backend": self.backend, "method": self.method, "why": self.why}
        found |= {"verdict": self.verdict, "statement": self.statement, "failure": self.failure and str(self.failure)}
        found["output"] = self.output and self.output.as_dict()
        found["culprits"] = [one.as_dict() for one in self.culprits]
        found["ranked"] = [one.tap and one.tap.name for one in self.ranked]
        found["remedies"] = [one.as_dict() for one in self.remedies]
        if self.investigation is not None:
            found |= {"trace": self.investigation.as_dict(), "missing": self.investigation.candidate.missing}
        if self.bisection is not None:
            found["searches"] = [search.as_dict() for search in self.bisection.searches]
        return json_ready(found)

    def page(self, path: str | Path) -> Path:
        """Write the diagnosis as one HTML file that needs nothing else, and return its path."""
        title = f"Diagnosis of an export on {self.backend}"
        parts = [markup.line(self.verdict, self.statement, (f"{self.method}: {self.why}",))]
        if self.culprits:
            parts.append(markup.table(self.table(), "Operators that are wrong by themselves, the largest effect first"))
        if self.investigation is not None:
            parts.append(markup.table([self.investigation.as_dict()], "The run that was traced"))
        if self.bisection is not None:
            searches = [search.as_dict() for search in self.bisection.searches]
            parts.append(markup.table(searches, "The searches by bisection"))
        return write_text(path, markup.page(title, parts))

    def bundle(self, folder: str | Path) -> Path:
        """Write the first culprit as a folder that reproduces it without this package: see `culprit_bundle`.

        Raises
        ------
        InputError
            If no operator was named by tracing, the backend has no script of its own, or `folder` holds something else.
        """
        if self.first is None or self._programs is None or self._reference is None:
            raise InputError(f"There is no operator to reproduce: {self.statement}")
        return write_finding_bundle(self.first, *self._programs, self._reference, folder)

    def __str__(self) -> str:
        lines = [self.statement, f"{self.method}: {self.why}"]
        if self.output is not None:
            lines.append(f"output: {self.output}")
        for one in self.ranked:
            line = f", {one.source}" if one.source else ""
            lines.append(f"  {one.tap and one.tap.name} ({one.tap and one.tap.op}{line}): {one.channels}")
            if one.local_error is not None:
                inherited = "not measured" if one.inherited_error is None else f"{one.inherited_error:.3g} of the peak"
                lines.append(f"    local error {one.local_error:.3g} of the peak, inherited error {inherited}")
            if one.effect is not None:
                lines.append(
                    f"    effect: {100 * one.effect:.3g} % of the output's error is gone when it alone is right"
                )
            lines.append(f"    mechanism: {one.mechanism.name}: {one.mechanism}")
            if one.mechanism.defect:
                lines.append(f"    known defect: {', '.join((one.mechanism.defect, *one.mechanism.threads))}")
        lines += [f"  remedy: {one}" for one in self.remedies]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        line = markup.line(self.verdict, self.statement, (f"{self.method}: {self.why}",))
        table = markup.table(self.table())._repr_html_() if self.culprits else ""
        return line._repr_html_() + table


def diagnose(
    program: Any,
    inputs: Arrays,
    backend: str | Backend = "onnxruntime",
    reference: Any = None,
    method: Method = "auto",
    precision: Precision = "float32",
    folder: str | Path | None = None,
) -> Diagnosis:
    """Export a program to a backend, run it there, and name the operators that are wrong by themselves.

    Where the runtime shows the results of its operators, each of them is recomputed in float64 on the values that went
    into it on that runtime. Where a delegate hides them, or too few could be captured to judge, the program is cut,
    compiled in parts, and halved.

    Parameters
    ----------
    program : torch.nn.Module or Exported
        What is exported.
    inputs : mapping
        Name of a parameter of its forward -> example tensor.
    backend : str or Backend
        A key of `BACKENDS`, or a backend of your own.
    reference : torch.nn.Module, Exported or Trace, optional
        What is right, where `program` itself may be wrong; or what `reference_trace` returned. By default PyTorch
        running `program` itself.
    method : str
        ``auto``, ``tracing`` or ``bisection``.
    precision : str
        ``float32`` or ``float64``: what the reference is run in, against which the inherited error is measured. The
        local error is always measured against float64.
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.

    Returns
    -------
    Diagnosis
        A program that the backend cannot export is a diagnosis with that `failure`.

    Raises
    ------
    InputError
        If the inputs do not fit, the backend is unknown or cannot run here, or the method is none of these.
    """
    for value, known_values in ((method, get_args(Method)), (precision, EAGER)):
        if value not in known_values:
            raise InputError(f"'{value}' is not one of {', '.join(known_values)}.")
    runtime = running(named_backend(backend) if isinstance(backend, str) else backend)
    candidate = as_exported(program, inputs, runtime.name)
    if isinstance(candidate, Failure):
        return _failed(candidate)
    hidden = _hidden(runtime)
    if method == "bisection" or (method == "auto" and hidden):
        why = hidden if method == "auto" else "as requested"
        return _bisected(runtime, _compared_with(candidate, inputs, reference), inputs, folder, why)
    known, healthy = _right(candidate, inputs, reference, precision)
    found = investigate(candidate, inputs, runtime, known, folder)
    if isinstance(found, Failure):
        return _failed(found)
    missing = len(found.candidate.missing)
    if method == "auto" and found.culprit.verdict == "unknown" and missing:
        why = f"{missing} operators could not be captured by tracing, and none of the others is wrong"
        return _bisected(runtime, _compared_with(candidate, inputs, known), inputs, folder, why, found)
    why = f"{runtime.name} shows {len(found.candidate.taps)} operators ({found.candidate.how})"
    return Diagnosis(
        runtime.name,
        "tracing",
        why if method == "auto" else "as requested",
        found.culprit.verdict,
        _measured(found, candidate),
        _statement(found),
        output=worst_output(found.reference.outputs, found.history.first),
        investigation=found,
        _programs=(candidate, healthy),
        _reference=known,
    )


def _statement(found: Investigation) -> str:
    """Return the result of tracing in one sentence."""
    if found.culprit.verdict != "pass":
        return found.culprit.statement
    count = len(found.candidate.taps)
    return f"No operator is wrong on {found.backend}: all {count} that were captured are finite, and right to rounding."


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


def _measured(found: Investigation, candidate: Exported) -> tuple[Culprit, ...]:
    """Return all culprits in the order of execution, with their source lines and what each does to the output."""
    named = (replace(one, source=candidate.specification.source_line(_name(one))) for one in _ordered(found))
    assert found.reference.meaning is not None
    propagation = ErrorPropagation(found.reference.meaning, found.reference.inputs, found.errors)
    return with_effects(tuple(named), propagation)


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


def _bisected(
    runtime: Backend,
    candidate: Exported,
    inputs: Arrays,
    folder: str | Path | None,
    why: str,
    traced: Investigation | None = None,
) -> Diagnosis:
    found = bisect(candidate, inputs, runtime, folder)
    culprits = tuple(_culprit(runtime.name, search) for search in found.searches if search.error is not None)
    statement = found.searches[0].statement
    return Diagnosis(
        runtime.name, "bisection", why, found.verdict, culprits, statement, investigation=traced, bisection=found
    )


def _culprit(backend: str, search: Search) -> Culprit:
    """Return what a search found in the form that tracing gives."""
    error = search.error
    assert error is not None
    given = np.asarray(error.given)
    return Culprit(
        "divergence",
        "fail",
        backend,
        Tap(error.operator, describe(given), given),
        candidates=search.operators,
        local_error=error.of_peak,
        ratio=error.ratio,
        upstream=error.operator.inputs,
        reaches_output=True,
    )


def _failed(failure: Failure) -> Diagnosis:
    why = "the program could not be exported, so that nothing could be run"
    return Diagnosis(failure.backend, "export", why, "fail", (), f"{failure}.", failure)


def _severity(one: Culprit) -> tuple[bool, float, float, float]:
    """Return what the culprits are ranked by: effect, else the error that it alone makes, else the local error."""
    known = one.effect is not None
    figures = (one.effect, one.alone, one.ratio)
    effect, alone, ratio = (np.inf if figure is None or np.isnan(figure) else figure for figure in figures)
    return known, effect if known else 0.0, alone if known else 0.0, ratio
