"""A program on a runtime: a look into it on any backend, and one run from end to end that tells what is wrong."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.artefacts import laid
from kokoro_nb.backends.base import Backend, Failure, RungError, Runnable, on_rung, running
from kokoro_nb.backends.eager import EagerProgram
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.ladder import difference, loaded, outputs_of
from kokoro_nb.backends.segment import output_of, result_nodes, with_outputs
from kokoro_nb.backends.signature import Arrays, as_array, checked
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.locate.bisection import narrowed
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.output_error import OutputError, worst_output
from kokoro_nb.locate.verdicts import divergences, first_nonfinite, local_errors
from kokoro_nb.traces.trace import Keep, Recorder, Tap, Taps, Trace, chosen, sharing

EXTRA_OUTPUTS = "compiled once more, with results as further outputs"


def traced(
    backend: Backend, exported: Exported, inputs: Arrays, taps: Taps, keep: Keep, folder: str | Path | None
) -> Trace:
    """Run a program once and capture the results of operators on the way, whatever the runtime shows of itself.

    Where it shows some of them, those are what is captured. Where it shows none, the program is compiled once more,
    with the results as further outputs; of those the floats alone where the backend does not take the others.

    Parameters
    ----------
    backend : Backend
        Any one that can run what it exports.
    exported : Exported
        The program.
    inputs, taps, keep
        As for `base.Program.trace`.
    folder : path or None
        Where artefacts are saved; ``artefacts`` in the cache by default.

    Raises
    ------
    InputError
        As `base.Program.trace` does, and if the program cannot be exported or run here.
    """
    trace = backend.load(backend.export(exported, inputs, folder)).trace(inputs, taps, keep)
    return trace if trace.taps else with_extra_outputs(backend, exported, inputs, taps, keep, folder)


def with_extra_outputs(
    backend: Backend, exported: Exported, inputs: Arrays, taps: Taps, keep: Keep, folder: str | Path | None
) -> Trace:
    """Compile a program with the results of operators as further outputs, and run that: see `traced`."""
    operators = chosen(exported.specification.operators, taps)
    shown = result_nodes(exported)
    every = [one.name for one in operators if one.name in shown and not _overwritten(shown[one.name])]
    floats = {operator.name for operator in operators if operator.dtype.startswith("float")}
    for names in (every, [name for name in every if name in floats]):
        tapped = with_outputs(exported, names)
        made = backend.export(tapped, inputs, folder)
        if not isinstance(made, Failure):
            break
    results = backend.load(made).run(inputs)
    places = output_of(tapped)
    recorder = Recorder(operators, keep)
    for name in (one for one in names if one in places):
        recorder.add(name, results[places[name]])
    outputs = {name: results[name] for name in exported.outputs}
    return recorder.trace(backend.name, checked(inputs, exported.inputs), outputs, EXTRA_OUTPUTS)


def _overwritten(node: Any) -> bool:
    """Return whether a node is read by writes to it alone, which TVM takes for writes in place."""
    writes = [str(user.target).startswith(("aten.fill.", "aten.copy.")) for user in node.users]
    return all([*writes, bool(writes), *(user.args[1:].count(node) == 0 for user in node.users)])


BEFORE = {"itself": None, "itself twice": None, "NaN in every float": np.nan, "zeros": 0.0, "a constant": 1.0}
"""What is run before the inputs, with the number in the place of each float: an index may not be out of range."""


@dataclass(frozen=True)
class History:
    """What the same inputs gave after others.

    Attributes
    ----------
    changes : dict
        What was run just before -> largest absolute difference to the first answer; NaN where a value was not finite in
        one of the two only. What the runtime refused to run is not in it.
    first : dict
        The first answer, array of each output by its name.
    later, right : tuple of dict
        Of a program that keeps state: the answers of the later calls, and what PyTorch's are in float64.
    """

    changes: Mapping[str, float]
    first: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    later: tuple[Mapping[str, np.ndarray], ...] = field(default=(), repr=False)
    right: tuple[Mapping[str, np.ndarray], ...] = field(default=(), repr=False)

    @property
    def depends(self) -> bool:
        """Whether any later answer was another one than the first."""
        return any(change != 0 for change in self.changes.values())

    @property
    def statement(self) -> str:
        """What was found, in one sentence."""
        if self.later:
            return "The program keeps state, so that each call has an answer of its own."
        if not self.depends:
            return f"The answer is the same, bit for bit, after {', '.join(self.changes)}."
        changes = [f"{change:.3g} after {before}" for before, change in self.changes.items() if change != 0]
        return f"The answer depends on history: it differs by {', '.join(changes)}."


def history(program: Runnable, inputs: Arrays, reference: Runnable | None = None) -> History:
    """Run `inputs` on one loaded program again and again, with poisoned and constant inputs in between.

    Parameters
    ----------
    program : Runnable
        Loaded afresh, or the first answer is not the first.
    inputs : mapping
        Name -> tensor.
    reference : Runnable, optional
        Of a program that keeps state: PyTorch in float64, loaded afresh. Then both run three times on the inputs alone,
        and once more with integers, such as the position in a cache, one further.
    """
    arrays = {name: as_array(name, value) for name, value in inputs.items()}
    first, changes = program.run(arrays), {}
    if reference is not None:
        later, (_, *right) = [program.run(arrays) for _ in range(2)], [reference.run(arrays) for _ in range(3)]
        further = {name: one + 1 if one.dtype.kind in "iu" else one for name, one in arrays.items()}
        with suppress(Exception):  # each has its own; there may be no such index
            if any(one.dtype.kind in "iu" for one in arrays.values()):
                right, later = [*right, reference.run(further)], [*later, program.run(further)]
        return History({}, first, tuple(later), tuple(right))
    for before, number in BEFORE.items():
        if number is not None:
            floats = {name: np.full_like(one, number) for name, one in arrays.items() if one.dtype.kind == "f"}
            try:
                program.run(arrays | floats)
            except Exception:  # each runtime has its own; NaN may become an index
                continue
        changes[before] = difference(first, program.run(arrays))
    return History(changes, first)


@dataclass(frozen=True)
class Investigation:
    """What was found on one backend.

    Attributes
    ----------
    backend : str
        Its name.
    reference, candidate : Trace
        The eager program and the one on the backend, on the same inputs, with their tensors.
    nonfinite : Culprit or None
        The first operator that is not finite; None if there is none.
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
    nonfinite: Culprit | None
    faults: tuple[Culprit, ...]
    errors: tuple[LocalError, ...]
    probe: OutputError
    history: History

    @property
    def culprit(self) -> Culprit | None:
        """What to look at first: what is not finite, else what is wrong; None if nothing is."""
        return next((one for one in (self.nonfinite, *self.faults) if one and one.verdict == "fail"), self.nonfinite)

    def without_tensors(self) -> "Investigation":
        """Return the figures alone, for those who keep several: at full size the tensors of each take 0.7 GB."""
        reference, candidate = self.reference.without_tensors(), self.candidate.without_tensors()
        errors = tuple(error.without_tensors() for error in self.errors)
        return replace(self, reference=reference, candidate=candidate, errors=errors)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"backend": self.backend, "captured": len(self.candidate.taps)}
        row |= {"not captured": len(self.candidate.missing)}
        row |= {"tapping changed the output by (of peak)": self.probe.of_peak}
        return row | {"wrong by themselves": len(self.faults), "depends on history": self.history.depends}


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
    program = EagerProgram(healthy.module, healthy.inputs, None, healthy.patches, name == "eager-float64", healthy)
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
            past = history(program, inputs, _stateful(candidate, inputs))
    except RungError as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        return error.failure(runtime.name)
    if past.later:  # the calls before have changed its state
        program = runtime.load(made)
    trace = program.trace(inputs, keep="full")
    if not trace.taps:
        try:
            trace = with_extra_outputs(runtime, candidate, inputs, "all", "full", folder)
        except Exception as error:  # each runtime has its own; then none of the operators is seen
            trace = replace(trace, how=f"with results as further outputs it stops: {one_line(error)}")
    del program  # with its weights and its working memory, before much is computed
    reference = reference_trace(candidate, inputs) if reference is None else reference
    trace = sharing(_laid(trace, reference), reference)
    errors = local_errors(reference, trace)
    faults = narrowed(divergences(reference, trace, errors), runtime, candidate, reference)
    probe, first = worst_output(past.first, trace.outputs), first_nonfinite(reference, trace)
    first = first and _with_figures(first, faults)
    return Investigation(runtime.name, reference, trace, first, faults, errors, probe, past)


def _stateful(candidate: Exported, inputs: Arrays) -> Runnable | None:
    """Return a program that keeps state in PyTorch, in float64 if it does not cast to float32 itself; else None."""
    names = ("eager-float64", "eager") if candidate.specification.state else ()
    runs = (loaded(backend(name), candidate, inputs) for name in names)
    return next((one for one in runs if not isinstance(one, Failure)), None)


def _laid(trace: Trace, reference: Trace) -> Trace:
    """Return a trace with its views in their shapes; at another length than the example's it may show their memory."""
    shapes = {tap.name: tap.statistics.shape for tap in reference.taps}

    def value(tap: Tap) -> np.ndarray | None:
        shape = shapes.get(tap.name, tap.operator.shape)
        return tap.value if tap.value is None or shape == tap.operator.shape else laid(tap.value, shape)

    return trace.with_values(value)


def _with_figures(nonfinite: Culprit, faults: tuple[Culprit, ...]) -> Culprit:
    """Return the first operator that is not finite with what the comparison with float64 found out about it."""
    same = next((one for one in faults if one.name == nonfinite.name), nonfinite)
    local, inherited, causes = same.local_error, same.inherited_error, same.mechanisms
    return replace(nonfinite, local_error=local, inherited_error=inherited, ratio=same.ratio, mechanisms=causes)


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

    def outputs(self, candidate: Exported | Failure | str | None = None, runtime: Backend | None = None) -> Any:
        """Return the outputs of the program, or of another form of it, on the runtime or on another; or a failure.

        Returns
        -------
        dict of numpy.ndarray or Failure or str
            The failure or sentence that was given in place of a program.
        """
        if isinstance(candidate, Failure | str):
            return candidate
        runtime = runtime or self.runtime
        return outputs_of(runtime, loaded(runtime, candidate or self.candidate, self.inputs, self.folder), self.inputs)
