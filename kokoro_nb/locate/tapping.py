"""Look into a program on any backend, and tell whether looking changed what it computes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kokoro_nb.backends.base import Artifact, Backend, Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import output_of, result_nodes, with_outputs
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.errors import InputError
from kokoro_nb.traces.operators import Taps, chosen
from kokoro_nb.traces.parity import of_peak
from kokoro_nb.traces.trace import Keep, Recorder, Trace

EXTRA_OUTPUTS = "compiled once more, with results as further outputs"


def traced(
    backend: Backend,
    exported: Exported,
    inputs: Arrays,
    taps: Taps = "all",
    keep: Keep = "stats",
    folder: str | Path | None = None,
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
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.

    Raises
    ------
    InputError
        As `base.Program.trace` does, and if the program cannot be exported or run here.
    """
    trace = backend.load(_made(backend, exported, inputs, folder)).trace(inputs, taps, keep)
    if trace.taps:
        return trace
    return with_extra_outputs(backend, exported, inputs, taps, keep, folder)


def with_extra_outputs(
    backend: Backend,
    exported: Exported,
    inputs: Arrays,
    taps: Taps = "all",
    keep: Keep = "stats",
    folder: str | Path | None = None,
) -> Trace:
    """Compile a program with the results of operators as further outputs, and run that: see `traced`."""
    operators = chosen(exported.specification.operators, taps)
    shown = result_nodes(exported)
    names = [operator.name for operator in operators if operator.name in shown]
    tapped = with_outputs(exported, names)
    made = backend.export(tapped, inputs, folder)
    if isinstance(made, Failure):
        floats = {operator.name for operator in operators if operator.dtype.startswith("float")}
        names = [name for name in names if name in floats]
        tapped = with_outputs(exported, names)
        made = _made(backend, tapped, inputs, folder)
    results = backend.load(made).run(inputs)
    places = output_of(tapped)
    recorder = Recorder(operators, keep)
    for name in names:
        recorder.add(name, results[places[name]])
    outputs = {name: results[name] for name in exported.outputs}
    return recorder.trace(backend.name, checked(inputs, exported.inputs), outputs, EXTRA_OUTPUTS)


@dataclass(frozen=True)
class ProbeEffect:
    """What looking into a program did to its outputs.

    Attributes
    ----------
    backend, how : str
        Which backend, and how it was looked into.
    difference : float
        Largest absolute difference of an output with taps to the same without; NaN where one is finite and the other is
        not, or where they are not finite in different ways.
    of_peak : float
        The same as a share of that output's peak without taps, the largest over the outputs.
    output : str
        The output at which it is largest; empty if none changed.
    nothing_finite : bool
        Whether no element of that output is finite without taps, so that nothing can be measured.
    """

    backend: str
    how: str
    difference: float
    of_peak: float
    output: str
    nothing_finite: bool = False

    @property
    def changed(self) -> bool:
        """Whether any bit of the answer changed."""
        return self.difference != 0

    @property
    def statement(self) -> str:
        """The finding in one sentence."""
        about = f"Looking into {self.backend} ({self.how})"
        if not self.changed:
            return f"{about} changed no bit of its outputs."
        if self.nothing_finite:
            return f"{about}: no element of '{self.output}' is finite without taps, so that no change can be measured."
        if np.isnan(self.difference):
            return f"{about} changed which elements of '{self.output}' are finite: its taps do not show the fault."
        return f"{about} changed '{self.output}' by up to {self.difference:.2g}, {self.of_peak:.2g} of its peak."


def probe_effect(untapped: Mapping[str, np.ndarray], trace: Trace) -> ProbeEffect:
    """Compare the outputs of a tapped run with those of an untapped one on the same inputs.

    Parameters
    ----------
    untapped : mapping
        What `base.Program.run` returned.
    trace : Trace
        What `base.Program.trace`, or `traced`, returned.

    Raises
    ------
    InputError
        If they have not the same outputs.
    """
    if {name: np.shape(value) for name, value in untapped.items()} != {
        name: np.shape(value) for name, value in trace.outputs.items()
    }:
        raise InputError("The tapped and the untapped run have different outputs; compare runs of one program.")
    worst, share, where = 0.0, 0.0, ""
    for name, plain in untapped.items():
        if plain.size and not np.isfinite(plain).any():
            return ProbeEffect(trace.backend, trace.how, float("nan"), float("nan"), name, nothing_finite=True)
        difference, peak = _difference(plain, trace.outputs[name])
        if np.isnan(difference):
            return ProbeEffect(trace.backend, trace.how, difference, difference, name)
        if difference:
            worst = float(np.maximum(worst, difference))
            ratio = of_peak(difference, peak)
            if ratio > share:
                share, where = ratio, name
    return ProbeEffect(trace.backend, trace.how, worst, share, where)


def _difference(plain: np.ndarray, tapped: np.ndarray) -> tuple[float, float]:
    """Return the largest difference, and the peak of `plain`; elements that are the same, NaN included, differ by 0."""
    a, b = plain.astype(np.float64), tapped.astype(np.float64)
    apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not apart.any():
        return 0.0, 0.0
    if not (np.isfinite(a[apart]).all() and np.isfinite(b[apart]).all()):
        return float("nan"), float("nan")
    sound = np.abs(a[np.isfinite(a)])
    return float(np.abs(a - b)[apart].max()), float(sound.max(initial=0.0))


def _made(backend: Backend, exported: Exported, inputs: Arrays, folder: str | Path | None) -> Artifact:
    made = backend.export(exported, inputs, folder)
    if isinstance(made, Failure):
        raise InputError(f"There is nothing to look into, for {made}")
    return made
