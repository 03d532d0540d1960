"""Look into a program on any backend, and tell whether looking changed what it computes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact, Backend, Failure, Runnable
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.ladder import difference as distance
from kokoro_nb.backends.segment import output_of, result_nodes, with_outputs
from kokoro_nb.backends.signature import Arrays, as_array, checked
from kokoro_nb.errors import InputError
from kokoro_nb.traces.trace import Keep, Recorder, Taps, Trace, chosen

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
    names = [one.name for one in operators if one.name in shown and not _overwritten(shown[one.name])]
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
    for name in (one for one in names if one in places):
        recorder.add(name, results[places[name]])
    outputs = {name: results[name] for name in exported.outputs}
    return recorder.trace(backend.name, checked(inputs, exported.inputs), outputs, EXTRA_OUTPUTS)


def _overwritten(node: Any) -> bool:
    """Return whether nothing reads what a node gives but writes to it, which TVM takes for writes in place."""
    writes = [str(user.target).startswith(("aten.fill.", "aten.copy.")) for user in node.users]
    return all([*writes, bool(writes), *(user.args[1:].count(node) == 0 for user in node.users)])


def _made(backend: Backend, exported: Exported, inputs: Arrays, folder: str | Path | None) -> Artifact:
    made = backend.export(exported, inputs, folder)
    if isinstance(made, Failure):
        raise InputError(f"There is nothing to look into, for {made}")
    return made


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
        Of a program that keeps state: the answers of the second and the third call, and what PyTorch's are in float64.
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


def history(program: Runnable, inputs: Arrays) -> History:
    """Run `inputs` on one loaded program again and again, with poisoned and constant inputs in between.

    Parameters
    ----------
    program : Runnable
        Loaded afresh, or the first answer is not the first.
    inputs : mapping
        Name -> tensor.
    """
    arrays = {name: as_array(name, value) for name, value in inputs.items()}
    first = program.run(arrays)
    changes = {}
    for before, number in BEFORE.items():
        if number is not None:
            floats = {name: np.full_like(one, number) for name, one in arrays.items() if one.dtype.kind == "f"}
            try:
                program.run(arrays | floats)
            except Exception:  # each runtime has its own; NaN may become an index
                continue
        changes[before] = distance(first, program.run(arrays))
    return History(changes, first)


def stateful_history(program: Runnable, reference: Runnable, inputs: Arrays) -> History:
    """Run `inputs` three times on a program that keeps state, and on PyTorch in float64; both loaded afresh."""
    arrays = {name: as_array(name, value) for name, value in inputs.items()}
    first, *later = (program.run(arrays) for _ in range(3))
    _, *right = (reference.run(arrays) for _ in range(3))
    return History({}, first, tuple(later), tuple(right))
