"""A program on a runtime, and one run of it from end to end: what was captured, what is wrong, and by how much."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Backend, Failure, RungError, on_rung, running
from kokoro_nb.backends.eager import EagerProgram
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.taps import laid
from kokoro_nb.errors import InputError
from kokoro_nb.locate.bisection import narrowed
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.output_error import OutputError, worst_output
from kokoro_nb.locate.tapping import History, history, stateful_history, with_extra_outputs
from kokoro_nb.locate.verdicts import divergences, first_nonfinite, judged
from kokoro_nb.traces.trace import Trace, sharing


@dataclass(frozen=True)
class Investigation:
    """What was found on one backend.

    Attributes
    ----------
    backend : str
        Its name.
    reference, candidate : Trace
        The eager program and the one on the backend, on the same inputs, with their tensors.
    nonfinite : Culprit
        The first operator that is not finite, or the statement that there is none.
    faults : tuple of Culprit
        Every operator that is wrong by itself, in the order of execution.
    errors : tuple of LocalError
        Of every captured operator, in that order.
    probe : OutputError
        What looking into it did to its outputs: the one that is furthest from that of a run without taps.
    history : History
        Whether its outputs depend on earlier calls.
    """

    backend: str
    reference: Trace
    candidate: Trace
    nonfinite: Culprit
    faults: tuple[Culprit, ...]
    errors: tuple[LocalError, ...]
    probe: OutputError
    history: History

    @property
    def culprit(self) -> Culprit:
        """What to look at first: what is not finite, else what is wrong."""
        return self.nonfinite if self.nonfinite.verdict == "fail" or not self.faults else self.faults[0]

    def without_tensors(self) -> "Investigation":
        """Return the figures alone, for those who keep several: at full size the tensors of each take 0.7 GB."""
        reference, candidate = self.reference.without_tensors(), self.candidate.without_tensors()
        errors = tuple(error.without_tensors() for error in self.errors)
        return replace(self, reference=reference, candidate=candidate, errors=errors)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "backend": self.backend,
            "captured": len(self.candidate.taps),
            "not captured": len(self.candidate.missing),
            "tapping changed the output by (of peak)": self.probe.of_peak,
            "wrong by themselves": len(self.faults),
            "depends on history": self.history.depends,
        }


def reference_trace(healthy: Exported, inputs: Arrays, name: str = "eager") -> Trace:
    """Return what every operator of a program gives in PyTorch, with the tensors and what they should compute.

    Parameters
    ----------
    healthy : Exported
        The program.
    inputs : mapping
        Name -> tensor. Converted to what the program declares, so that any backend can be given the same.
    name : str
        ``eager`` or ``eager-float64``.
    """
    double = name == "eager-float64"
    program = EagerProgram(healthy.module, healthy.inputs, None, healthy.patches, double, healthy)
    return replace(program.trace(inputs, keep="full"), inputs=checked(inputs, healthy.inputs))


def investigate(
    candidate: Exported,
    inputs: Arrays,
    runtime: str | Backend,
    reference: Trace | None = None,
    folder: str | Path | None = None,
) -> Investigation | Failure:
    """Export a program to a backend, run it with and without taps, and hold each operator against eager.

    Parameters
    ----------
    candidate : Exported
        The program.
    inputs : mapping
        Name -> tensor.
    runtime : str or Backend
        A key of `BACKENDS`, or a backend.
    reference : Trace, optional
        What `reference_trace` returned of the program as it should be; of `candidate` itself by default.
    folder : path, optional
        Where artefacts are saved.

    Returns
    -------
    Investigation or Failure
        The failure if the export did not come about, or the runtime refuses the file or the run.

    Raises
    ------
    InputError
        If there is no such backend, or it is not here.
    """
    runtime = running(backend(runtime) if isinstance(runtime, str) else runtime)
    made = runtime.export(candidate, inputs, folder)
    if isinstance(made, Failure):
        return made
    try:
        with on_rung("loaded"):
            program = runtime.load(made)
        with on_rung("run"):
            if candidate.specification.state:
                exact = backend("eager-float64")
                right = exact.export(candidate, inputs)
                if isinstance(right, Failure):  # of a module that casts to float32 itself
                    exact = backend("eager")
                    right = exact.export(candidate, inputs)
                past = stateful_history(program, exact.load(right), inputs)
            else:
                past = history(program, inputs)
    except RungError as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        return error.failure(runtime.name)
    if past.later:  # the calls before have changed its state
        program = runtime.load(made)
    trace = program.trace(inputs, keep="full")
    if not trace.taps:
        trace = with_extra_outputs(runtime, candidate, inputs, "all", "full", folder)
    del program  # with its weights and its working memory, before much is computed
    reference = reference_trace(candidate, inputs) if reference is None else reference
    trace = sharing(_laid(trace, reference), reference)
    errors = judged(reference, trace)
    faults = narrowed(divergences(reference, trace, errors), runtime, candidate, reference)
    first = _with_figures(first_nonfinite(reference, trace), faults)
    seen = faults, errors, worst_output(past.first, trace.outputs), past
    return Investigation(runtime.name, reference, trace, first, *seen)


def _laid(trace: Trace, reference: Trace) -> Trace:
    """Return a trace at another length than the example's with the views in their shape: it may show their memory."""
    shapes = {tap.name: tap.statistics.shape for tap in reference.taps}
    taps = (
        replace(tap, value=laid(tap.value, shapes[tap.name]))
        if tap.value is not None and shapes.get(tap.name, tap.operator.shape) != tap.operator.shape
        else tap
        for tap in trace.taps
    )
    return replace(trace, taps=tuple(taps))


def _with_figures(nonfinite: Culprit, faults: tuple[Culprit, ...]) -> Culprit:
    """Return the first operator that is not finite with what the comparison with float64 found out about it."""
    for one in faults:
        if nonfinite.tap is not None and one.tap is not None and one.tap.name == nonfinite.tap.name:
            local, inherited, causes = one.local_error, one.inherited_error, one.mechanisms
            return replace(nonfinite, local_error=local, inherited_error=inherited, ratio=one.ratio, mechanisms=causes)
    return nonfinite


@dataclass(frozen=True, eq=False)
class Subject:
    """A program on a runtime.

    Attributes
    ----------
    runtime : Backend
        Where it runs.
    candidate, healthy : Exported
        What the runtime is given, and what it should compute; the same for a fault of the runtime itself.
    inputs : mapping
        Array or tensor of each input by its name.
    folder : path or None
        Where artefacts are saved.
    limit : float or None
        What is allowed of the outputs' error, of the peak; None where it is derived.
    reference : Trace or None
        Of PyTorch; None where nothing was traced.
    """

    runtime: Backend
    candidate: Exported
    healthy: Exported
    inputs: Arrays
    folder: str | Path | None = None
    limit: float | None = None
    reference: Trace | None = None

    @property
    def known(self) -> Trace:
        """What is right: the trace of PyTorch, or, where there is none, the program as it should be."""
        if self.reference is not None:
            return self.reference
        meaning = self.healthy.specification
        meaning = meaning.named_by or meaning
        return Trace("eager-float64", (), inputs=checked(self.inputs, self.healthy.inputs), meaning=meaning)

    def outputs(self, candidate: Exported | None = None, runtime: Backend | None = None) -> Any:
        """Return the outputs of the program, or of another form of it, on the runtime or on another; or a failure.

        Returns
        -------
        dict of numpy.ndarray or Failure
        """
        runtime = runtime or self.runtime
        program = loaded(runtime, candidate or self.candidate, self.inputs, self.folder)
        return outputs_of(runtime, program, self.inputs)
