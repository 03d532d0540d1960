"""A file run on the runtime with everything that passes its nodes, and each node judged on what it was given there."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.inspection.node_groups import NodeGroups
from kokoro_nb.inspection.node_judgement import NodeJudgement, is_float, judged_outputs, unrounded_inputs_explain
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, last_readers, nodes_of
from kokoro_nb.inspection.onnx_session import OtherRuns, brief, pinned, run_session, run_ways, session_of, tapped
from kokoro_nb.inspection.quantisation_budget import BudgetWatch, QuantisationBudget
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, computed, dtypes_of
from kokoro_nb.inspection.value_types import Arrays, Tell, Value, Values
from kokoro_nb.traces.parity import relative_difference


@dataclass(frozen=True, eq=False)
class FileRun:
    """What was seen of a file on one set of inputs.

    Attributes
    ----------
    file : OnnxFile
        The file, its random nodes pinned to what they drew.
    nodes : tuple of OnnxNode
        Its nodes in order.
    judgements : tuple of NodeJudgement
        One for each node that was reached, in order.
    inputs : dict of str to numpy.ndarray
        What it was run on.
    outputs : dict of str to value
        What it gives with optimisation off, no value tapped.
    true : dict of str to value
        The same in float64 from the start; an output is missing where a node before it has no definition here.
    drawn : dict of str to numpy.ndarray
        What the random nodes drew.
    complete : bool
        Whether every node was reached within the time.
    budget : QuantisationBudget
        The noise of its quantised layers.
    others : OtherRuns or None
        What it gives when it is run in other ways, if it was.
    unlike : dict of OnnxNode to str
        Nodes that give something else in another run, whether or not an output shows it.
    """

    file: OnnxFile
    nodes: tuple[OnnxNode, ...]
    judgements: tuple[NodeJudgement, ...]
    inputs: Arrays
    outputs: Values
    true: Values
    drawn: Arrays = field(default_factory=dict)
    complete: bool = True
    budget: QuantisationBudget = field(default_factory=QuantisationBudget)
    others: OtherRuns | None = None
    unlike: Mapping[OnnxNode, str] = field(default_factory=dict)

    def captured(self, node: OnnxNode) -> dict[str, Value]:
        """Return what went into a node and came out of it on the runtime, run once more."""
        names = [name for name in (*node.reads, *node.outputs) if name not in self.file.constants]
        return _run(self.file, self.inputs, names) | {
            name: self.file.constants[name] for name in node.reads if name in self.file.constants
        }

    def call(self, node: OnnxNode, values: Values) -> tuple[OnnxCall, list[Value]]:
        """Return a node with the values that go into it."""
        inputs = [values[name] if name else None for name in node.proto.input]
        return OnnxCall(node.proto, self.file.opsets, dtypes_of(inputs), values), inputs


def examined(
    file: OnnxFile, inputs: Arrays, seconds: float = float("inf"), tell: Tell = str, *, in_all_ways: bool = False
) -> FileRun:
    """Run a file and judge its nodes.

    Parameters
    ----------
    file : OnnxFile
        The file.
    inputs : mapping of str to numpy.ndarray
        For each input of the file.
    seconds : float
        After which no further nodes are begun.
    tell : callable
        Is given a line on how far it is.
    in_all_ways : bool
        Run it in the other ways as well.

    Raises
    ------
    InputError
        If the runtime does not load the file or stops.
    """
    until = time.monotonic() + seconds
    nodes = nodes_of(file.model.graph)
    drawn: dict[str, np.ndarray] = {}
    chosen = [name for node in nodes if node.is_random for name in node.outputs]
    if chosen:
        drawn = {k: np.asarray(one) for k, one in _run(file, inputs, chosen).items()}
        file = replace(file, model=pinned(file.model, drawn))
    others = None
    if in_all_ways:
        outputs, others = run_ways(file.model, inputs, tell)
    else:
        outputs = run_session(session_of(file.model), inputs)
    ends = {output.name for output in file.model.graph.output}
    freed = last_readers(nodes, ends)
    truth: dict[str, Value] = {**inputs, **drawn}
    lost: set[str] = set()  # values whose true value is not known
    found: list[NodeJudgement] = []
    watch, groups = BudgetWatch(file, nodes), NodeGroups(file, nodes, inputs, in_all_ways=in_all_ways)
    say = seldom(tell, SAID)
    for group, values in groups:
        for node in group:
            found.append(_judged(file, node, values, truth, lost))
            watch.see(node, values)
            for name in freed.get(node.index, ()):
                truth.pop(name, None)
            say(f"{len(found)} of {len(nodes)} nodes")
        if time.monotonic() > until:
            break
    tell(f"{len(found)} of {len(nodes)} nodes")
    true = {name: truth[name] for name in outputs if name in truth}
    complete = len(found) == len(nodes)
    return FileRun(
        file, nodes, tuple(found), inputs, outputs, true, drawn, complete, watch.budget, others, groups.unlike
    )


def _run(file: OnnxFile, inputs: Arrays, names: list[str]) -> dict[str, Value]:
    """Return the values of these names, some of which may be inputs."""
    inner = [name for name in names if name not in inputs]
    values = run_session(session_of(tapped(file.model, inner)), inputs) if inner else {}
    return {name: inputs[name] for name in names if name in inputs} | values


def _judged(file: OnnxFile, node: OnnxNode, values: Values, truth: dict[str, Value], lost: set[str]) -> NodeJudgement:
    """Judge one node, and take its true values further: what it gives on the true values before it."""
    inputs = [values[name] if name else None for name in node.proto.input]
    given = [values.get(name) if name else None for name in node.proto.output]
    finite = all(is_finite(value) for value in inputs)
    about = (node.index, node.key, node.operator)
    if node.is_random:
        return NodeJudgement(*about, "unknown", "draws at random", given_finite=finite)
    call = OnnxCall(node.proto, file.opsets, dtypes_of(inputs), values)
    try:
        errors, _ = judged_outputs(call, inputs, given)
    except Exception as why:  # another's file on a third party's operators: it is not judged, and says why
        lost.update(node.outputs)
        reason = str(why) if isinstance(why, NotDefined) else f"it could not be compared: {brief(why)}"
        return NodeJudgement(*about, "unknown", reason, given_finite=finite)
    inherited = _inherited(file, node, call, given, truth, lost)
    noise = None if inherited is None else inherited[1]
    sound = None if inherited is None else all(is_finite(truth[name]) for name in node.outputs)
    verdict: Verdict = "fail" if any(one.is_wrong for one in errors) else "pass"
    wide = verdict == "fail" and unrounded_inputs_explain(call, inputs, given, errors, file.constants)
    return NodeJudgement(
        *about, "pass" if wide else verdict, "", errors, inherited and inherited[0], finite, sound, wide, noise
    )


def _inherited(
    file: OnnxFile, node: OnnxNode, call: OnnxCall, given: list[Value], truth: dict[str, Value], lost: set[str]
) -> tuple[float, float] | None:
    """Compute a node on true values, keep what it gives, and return how far the runtime is from that.

    Of the peak, and as root mean square of that of what is right; None where the true values are not known.
    """

    def true(name: str) -> Value:
        return truth[name] if name in truth else file.constants[name]

    if lost & set(node.reads):
        lost.update(node.outputs)
        return None
    inputs = [true(name) if name else None for name in node.proto.input]
    outer = {name: true(name) for name in node.reads}
    try:
        outputs = computed(replace(call, outer=outer), inputs)
    except NotDefined:
        lost.update(node.outputs)
        return None
    worst = noise = 0.0
    for name, value, right in zip(node.proto.output, given, outputs, strict=False):
        if not name:
            continue
        truth[name] = right
        if isinstance(value, np.ndarray) and (is_float(value.dtype) or value.dtype.kind in "biu"):
            worst = float(np.maximum(worst, relative_difference(value, np.asarray(right))))
            noise = float(np.maximum(noise, relative_noise(value, np.asarray(right))))
    return worst, noise


def relative_noise(value: Value, right: Value) -> float:
    """Return the root mean square of the difference over that of what is right, where that is finite.

    NaN if the value is not finite somewhere where it should be, or the shapes differ; 0 of what is no number.
    """
    if not isinstance(right, np.ndarray) or not isinstance(value, np.ndarray) or right.dtype.kind not in "fiub":
        return 0.0
    if value.shape != right.shape:
        return float("nan")
    given, exact = value.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(exact)
    with np.errstate(invalid="ignore"):
        noise = float(np.square(np.where(finite, given - exact, 0.0)).sum())
    signal = float(np.square(np.where(finite, exact, 0.0)).sum())
    if not np.isfinite(noise):
        return float("nan")
    return 0.0 if noise == 0 else float(np.sqrt(noise / signal)) if signal else float("inf")


def is_finite(value: Value) -> bool:
    """Return whether every float in a value is finite."""
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, list):
        return all(map(is_finite, value))
    array = np.asarray(value)
    return not is_float(array.dtype) or bool(np.isfinite(array.astype(np.float64)).all())


SAID = 0.5  # seconds between two words


def seldom(tell: Tell, seconds: float) -> Callable[[str], None]:
    """Return a function that hands a line on to `tell` at first, and then once `seconds` have passed.

    >>> say = seldom(print, 60.0)
    >>> for node in range(3):
    ...     say(f"{node} of 3 nodes")
    0 of 3 nodes
    """
    last = float("-inf")

    def say(line: str) -> None:
        nonlocal last
        if time.monotonic() - last > seconds:
            tell(line)
            last = time.monotonic()

    return say
