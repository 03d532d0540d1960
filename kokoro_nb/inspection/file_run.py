"""A file of ONNX run on the runtime with every value between its nodes, and each node judged on its inputs there.

It runs group by group, so that no more is held than what later nodes still read, whatever the number of nodes. A group
is a model of its own, which is given what the runtime gave before it; each node runs once. Where the inputs of a group
cannot be given so (sequences, and floats of 16 bits, which a runtime without such kernels keeps in float32 from one
node to the next), the whole file is run with the values of the group as its outputs.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.artefacts import give_back_memory
from kokoro_nb.backends.base import quietly
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import node_judgement, onnx_model
from kokoro_nb.inspection.float16_foresight import HalfPrecisionNode, HalfPrecisionWatch
from kokoro_nb.inspection.input_maker import made_inputs
from kokoro_nb.inspection.judged_run import Blame, JudgedRun, OperatorAlone
from kokoro_nb.inspection.node_judgement import Far, NodeJudgement, NodeOutputError, is_finite, judged_outputs
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode, freeing, last_readers, run_once
from kokoro_nb.inspection.quantisation_budget import BudgetWatch, QuantisationBudget
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, by_reference, computed
from kokoro_nb.inspection.value_types import Arrays, Tell, Value, Values, refusing
from kokoro_nb.markup import number
from kokoro_nb.traces.statistics import relative_difference

FIRST = 32  # nodes of the first group, before it is known how large their values are
MOST = 60  # nodes of one group: the values of the next ones may be far larger than those before
AT_ONCE = 32 * 2**20  # bytes of the values of one group that runs by itself
OF_WHOLE = 256 * 2**20  # the same where the whole file is run for each group
HEAVY = 128 * 2**20  # bytes of a file whose groups are not run on two threads: each would be loaded once more
WORKERS = 2  # threads: the next group runs, and nodes are judged, while the true values are computed
APART = 2.0**-16  # of the peak: what orders of summation make of it on several threads is less
AGAIN, THREADS = "a second call", "two threads"
GIVEN = tuple(map(np.dtype, ("f4", "f8", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")))
ONNX_LINES = """\
import onnx
import onnxruntime

model = onnx.load(here / "one_node.onnx")
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
given = session.run(None, {{one.name: saved["in." + one.name] for one in session.get_inputs()}})[{output}]
"""


@dataclass(frozen=True, eq=False)
class FileRun(JudgedRun):
    """What was seen of a file of ONNX on one set of inputs: its outputs with optimisation off, no value tapped.

    Attributes
    ----------
    file : OnnxFile
        The file, its random nodes pinned to what they drew.
    drawn : dict of str to numpy.ndarray
        What the random nodes drew.
    budget : QuantisationBudget
        The noise of its quantised layers.
    others : dict
        The outputs of a second call, ``again``, and of each of `onnx_model.WAYS`, or the sentence with which the
        runtime stops.
    unlike : dict of OnnxNode to str
        Nodes that give something else in another run, whether or not an output shows it.
    foresight : tuple of HalfPrecisionNode
        What float16 would do to each node; of a file with floats of 16 bits what those of float16 do.
    """

    file: OnnxFile
    drawn: Arrays
    budget: QuantisationBudget
    others: Values
    unlike: Mapping[OnnxNode, str]
    foresight: tuple[HalfPrecisionNode, ...]

    def captured(self, node: OnnxNode) -> dict[str, Value]:
        """Return the inputs and outputs of a node on the runtime, run once more."""
        return _run(self.file, self.inputs, [*node.reads, *node.outputs])

    def blamed(self, judgement: NodeJudgement) -> tuple[Blame, tuple[str, ...]]:
        """Run the node alone on the runtime, and on onnx's reference evaluator: see `JudgedRun.blamed`."""
        worst, node = judgement.worst, self.nodes[judgement.index]
        assert worst is not None
        values = self.captured(node)
        call, inputs = self.file.call(node, values)
        proofs: tuple[str, ...] = ()
        try:
            model, read = self._alone(node, values)
            alone = _error(call, inputs, run_once(model, read), worst)
            if alone is None or not alone.is_wrong:
                right = "Alone, on the same values, the node is right: the runtime computes it otherwise in this graph."
                return "runtime", (right,)
            proofs = ("Alone in a model of its own the node is wrong, too.",)
            with refusing("onnx's reference evaluator stops: {}", lambda error: str(error)[:200]):
                second = dict(zip(node.proto.output, by_reference(call, inputs), strict=True))
            reference = _error(call, inputs, second, worst)
        except InputError as error:
            return "unknown", (*proofs, str(error))
        if reference is None or reference.is_wrong:
            other = "onnx's reference evaluator does not agree with float64 here either; either may be meant."
            return "unknown", (*proofs, other)
        other = f"onnx's reference evaluator, in the file's own types, agrees with float64: {number(reference.ratio)} "
        other += f"times the rounding-error bound, where the runtime has {number(alone.ratio)} times."
        return "runtime", (*proofs, other)

    def is_unsound_elsewhere(self, judgement: NodeJudgement) -> bool | None:
        """Run the file on other inputs that are made from its graph: see `JudgedRun.is_unsound_elsewhere`."""
        names = [one.name for one in judgement.outputs]
        try:
            values = run_once(self.file.model, made_inputs(self.file, seed=1).arrays, names)
        except InputError:
            return None
        return not all(map(is_finite, values.values()))

    def division(self, judgement: NodeJudgement) -> tuple[Value, Value] | None:
        """Return divisor and quotient of a Div or Reciprocal: see `JudgedRun.division`."""
        node = self.nodes[judgement.index]
        values = self.captured(node) if node.proto.op_type in ("Div", "Reciprocal") else None
        return None if values is None else (values[node.proto.input[-1]], values[node.proto.output[0]])

    def unsound_constants(self, judgement: NodeJudgement) -> Collection[str]:
        """Return the initialisers that a node reads and that are not finite."""
        held = (name for name in self.nodes[judgement.index].reads if name in self.file.constants)
        return [name for name in held if not is_finite(self.file.constants[name])]

    def _alone(self, node: OnnxNode, values: Values) -> tuple[Any, dict[str, np.ndarray]]:
        """Return a node as a model of its own, with its inputs; InputError if it reads a sequence."""
        read = {name: values[name] for name in node.reads if name not in self.file.constants}
        if any(isinstance(value, list) for value in read.values()):
            raise InputError(f"{node.key} reads a sequence, which no file of tensors holds.")
        arrays = {name: np.asarray(value) for name, value in read.items()}
        return self.file.part([node], arrays, node.outputs), arrays

    def alone(self, judgement: NodeJudgement, place: Path) -> OperatorAlone:
        """Write a node as a model of its own: see `JudgedRun.alone`."""
        import onnx

        node, worst = self.nodes[judgement.index], judgement.worst
        assert worst is not None
        values = self.captured(node)
        model, read = self._alone(node, values)
        onnx.save(model, place / "one_node.onnx")
        exact = computed(*self.file.call(node, values))[[*node.proto.output].index(worst.name)]
        saved = {"right": np.asarray(exact, np.float64), **{f"in.{key}": array for key, array in read.items()}}
        lines = ONNX_LINES.format(output=node.outputs.index(worst.name))
        return OperatorAlone("onnx and onnxruntime", lines, saved)


def _error(call: OnnxCall, inputs: list[Value], results: Values, worst: NodeOutputError) -> NodeOutputError | None:
    """Return how far the same output is off in other results of the same node."""
    try:
        errors, _ = judged_outputs(call, inputs, [results.get(name) if name else None for name in call.node.output])
    except NotDefined:
        return None
    return next((one for one in errors if one.name == worst.name), None)


@dataclass(eq=False)
class NodeGroups:
    """Groups of nodes that follow one another, each with what its nodes read and give on the runtime.

    Attributes
    ----------
    file : OnnxFile
        The file, its random nodes pinned.
    nodes : tuple of OnnxNode
        Its nodes in order.
    inputs : dict of str to numpy.ndarray
        What it is run on.
    unlike : dict of OnnxNode to str
        The nodes that give something else then although they are given the same, and in which run.
    """

    file: OnnxFile
    nodes: tuple[OnnxNode, ...]
    inputs: Arrays
    unlike: dict[OnnxNode, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[tuple[OnnxNode, ...], dict[str, Value]]]:
        constants = self.file.constants
        alive: dict[str, Value] = {**self.inputs}  # what the nodes from `start` on may read
        start, count, freed = 0, FIRST, last_readers(self.nodes, set())
        while start < len(self.nodes):
            group = self._light(self.nodes[start : start + count])
            names = dict.fromkeys(name for node in group for name in (*node.reads, *node.outputs))
            given = dict.fromkeys(name for node in group for name in node.outputs if name not in constants)
            outer = {name: alive[name] for name in names if name not in given and name not in constants}
            alone = all(getattr(one, "dtype", object) in GIVEN for one in outer.values())
            if alone:
                values = outer | self._alone(group, outer, list(given))
            else:  # what the group reads comes from the same run: other outputs are rounded at other places
                read = [name for name in outer if name not in self.inputs]
                values = outer | run_once(self.file.model, self.inputs, [*read, *given])
            made = {name: values[name] for name in given}
            values |= {name: constants[name] for name in names if name in constants}
            alive |= made
            list(freeing(group, freed, alive))
            start += len(group)
            size = sum(map(bytes_of, made.values())) or 1
            limit = AT_ONCE if alone else OF_WHOLE
            count = int(np.clip(count * np.clip(limit / size, 0.25, 4.0), 1, MOST if alone else 32 * MOST))
            yield group, values

    def _light(self, group: tuple[OnnxNode, ...]) -> tuple[OnnxNode, ...]:
        """Return the first nodes of a group, as many as read no more weights together than a group may give."""
        read: set[str] = set()
        total = 0
        for k, node in enumerate(group):
            new = {name for name in node.reads if name in self.file.tensors} - read
            read |= new
            total += sum(self.file.tensors[name].ByteSize() for name in new)
            if k and total > AT_ONCE:
                return group[:k]
        return group

    def _alone(self, group: tuple[OnnxNode, ...], outer: Values, wanted: list[str]) -> dict[str, Value]:
        """Run the nodes as a model of their own."""
        model = self.file.part([node for node in group if not node.is_random], outer, wanted)
        session = onnx_model.session_of(model)
        values = onnx_model.run_session(session, outer)
        self._compare(group, values, onnx_model.run_session(session, outer), AGAIN, 0.0)
        del session  # it holds the weights of the group, as the next one does
        if self.file.size <= HEAVY:
            self._compare(group, values, run_once(model, outer, threads=2), THREADS, APART)
        return values

    def _compare(self, group: tuple[OnnxNode, ...], values: Values, other: Values, run: str, apart: float) -> None:
        """Note the nodes of a group that give something else in another run, and are given nothing else there."""
        changed: set[str] = set()
        for node in group:
            new = {name for name in node.outputs if name in values and differ(values[name], other[name], apart)}
            if new and not changed & set(node.reads):
                self.unlike.setdefault(node, run)
            changed |= new


def differ(value: Value, other: Value, apart: float) -> bool:
    """Return whether two tensors are further apart than this share of the peak; at 0, whether their bits differ."""
    if not isinstance(value, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    if value.dtype.kind not in "fiub" or (value.shape == other.shape and value.tobytes() == other.tobytes()):
        return False
    return not apart or value.dtype.kind != "f" or not relative_difference(other, value) <= apart


def bytes_of(value: Value) -> int:
    """Return how many bytes a value takes, a sequence's items together."""
    return sum(map(bytes_of, value)) if isinstance(value, list) else int(getattr(value, "nbytes", 0))


def examined(file: OnnxFile, inputs: Arrays, seconds: float = float("inf"), tell: Tell = str) -> FileRun:
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

    Raises
    ------
    InputError
        If the runtime does not load the file or stops.
    """
    until = time.monotonic() + seconds
    nodes = onnx_model.nodes_of(file.model.graph)
    chosen = [name for node in nodes if node.is_random for name in node.outputs]
    drawn = {name: np.asarray(one) for name, one in _run(file, inputs, chosen).items()}
    file = replace(file, model=onnx_model.pinned(file.model, drawn)) if drawn else file
    ways = onnx_model.run_ways(file.model, inputs)
    _, outputs = next(ways)
    freed = last_readers(nodes, {output.name for output in file.model.graph.output})
    true = TrueValues(file, {**inputs, **drawn})
    found: list[NodeJudgement] = []
    watch, groups = BudgetWatch(file, nodes), NodeGroups(file, nodes, inputs)
    with quietly(), ThreadPoolExecutor(WORKERS) as pool:  # quietly here: threads have one standard error
        others = pool.submit(dict, ways)
        for group, values in _ahead(iter(groups), pool):
            judged = _judged(file, group, values, true, pool)
            for node, one in zip(freeing(group, freed, true.values, true.watch.half), judged, strict=False):
                found.append(one)
                watch.see(node, values)
                tell(f"{len(found)} of {len(nodes)} nodes")
            give_back_memory()
            if time.monotonic() > until:
                break
    ends = {name: true.values[name] for name in outputs if name in true.values}
    about = file, drawn, watch.budget, others.result(), groups.unlike, tuple(true.watch.found)
    return FileRun(nodes, tuple(found), inputs, outputs, ends, *about)


def _run(file: OnnxFile, inputs: Arrays, names: list[str]) -> dict[str, Value]:
    """Return the values of these names, some of which may be inputs or constants."""
    held = {name: known[name] for known in (file.constants, inputs) for name in names if name in known}
    inner = [name for name in names if name not in held]
    return held | (run_once(file.model, inputs, inner) if inner else {})


def _ahead(groups: Iterator[Any], pool: Executor) -> Iterator[Any]:
    """Yield items, while the next one is already made in a thread."""
    coming = pool.submit(next, groups, None)
    while (one := coming.result()) is not None:
        coming = pool.submit(next, groups, None)
        yield one


def _judged(
    file: OnnxFile, group: tuple[OnnxNode, ...], values: Values, true: "TrueValues", pool: Executor
) -> Iterator[NodeJudgement]:
    """Judge nodes, several at once, and take their true values further, in order: what they give on those before."""
    given = {node: [values.get(name) if name else None for name in node.proto.output] for node in group}
    calls = {node: file.call(node, values) for node in group}
    errors = {node: pool.submit(judged_outputs, *calls[node], given[node]) for node in group if not node.is_random}
    for node, (call, inputs) in calls.items():
        about = (node.index, node.key, node.operator)
        if node.is_random:
            yield NodeJudgement(*about, "unknown", "draws at random")
            continue
        far = partial(true.far, node, given[node], (call, inputs))
        wide = partial(node_judgement.unrounded_inputs_explain, call, inputs, given[node], constants=file.constants)
        yield node_judgement.judgement(about, all(map(is_finite, inputs)), errors.pop(node).result, far, wide)


class TrueValues:
    """The values of a file computed in float64 from the start, and what float16 would make of them.

    Parameters
    ----------
    file : OnnxFile
        The file, its random nodes pinned.
    values : dict of str to numpy.ndarray
        Of its inputs, and what the random nodes drew; the values that later nodes read are kept in it.
    """

    def __init__(self, file: OnnxFile, values: dict[str, Any]) -> None:
        self.file, self.values = file, values
        self.kept = {*values, *file.constants}  # names of what the runtime has exactly
        self.watch = HalfPrecisionWatch(file, values)

    def far(self, node: OnnxNode, given: list[Value], call: Any, right: list[Value]) -> Far | None:
        """Compute a node, and return how far the runtime is from that: see `distances`; None where it is not known.

        `call` is the node with its inputs on the runtime, and `right` what it should give on those.
        """
        wide = (*call, right) if self.kept.issuperset(node.reads) else self.file.evaluated(node, self.values)
        if wide is None:
            return None
        self.watch.see(node, given, self.values, wide)
        outputs = [one for one in zip(node.proto.output, given, wide[2], strict=False) if one[0]]
        self.values.update((name, right) for name, _, right in outputs)
        worst, noise, sound = node_judgement.distances((value, right) for _, value, right in outputs)
        if worst == 0 and sound:
            self.kept |= {name for name, one, _ in outputs if isinstance(one, np.ndarray) and one.dtype.kind in "biuf"}
        return worst, noise, sound
