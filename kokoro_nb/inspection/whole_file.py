"""What is seen of a file as a whole: optimised or not, twice, on two threads, its types, its constants."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection import onnx_model
from kokoro_nb.inspection.file_run import AGAIN, HEAVY, THREADS, FileRun
from kokoro_nb.inspection.float16_foresight import BITS, LARGEST, LOST, MEANS, most_noise
from kokoro_nb.inspection.judged_run import Blame, Findings, InspectionFinding
from kokoro_nb.inspection.node_judgement import NodeJudgement, has_halves, is_finite, relative_noise
from kokoro_nb.inspection.onnx_file import OnnxFile, TensorArrays
from kokoro_nb.inspection.onnx_model import OnnxNode, draws_inside, run_once
from kokoro_nb.inspection.quantisation_budget import decibels
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall
from kokoro_nb.inspection.value_types import Arrays
from kokoro_nb.locate.culprit import ROUNDED
from kokoro_nb.locate.rounding_bound import is_float
from kokoro_nb.markup import number
from kokoro_nb.traces.record import sketched
from kokoro_nb.traces.statistics import relative_difference

FLOOR = 2.0**-20  # of the peak: two orders of summation in float32
TIMES = 16.0  # how many times the error that rounding makes of the whole file another way to run it may be off
AUDIBLE = 20.0  # dB
"""What an output's level over its error must be, or the error can be heard whatever its spectrum.

At best the error lies where the signal does. There a tone hides noise that is 18 dB beneath it (tone masking noise in
ISO/IEC 13818-7, annex B; noise hides noise from 6 dB on), and 2 dB are for what differs between listeners. That is the
least: an error that is spread evenly is heard in pauses at far higher levels, which one figure cannot say.
"""
FLOAT, HALVES = 1, (10, 16)  # of onnx.TensorProto.DataType: float16 and bfloat16
CLIPPED = {"float16": (1e4, 65504.0, 1e-7, 5.96e-8), "bfloat16": (1e4,)}
"""Where converters to 16 bits cut constants: onnxconverter-common at 10000 and 1e-7, that of ONNX Runtime at 65504."""


@dataclass(frozen=True)
class OutputSummary:
    """One output of the file.

    Attributes
    ----------
    name, dtype : str
        Its name and type.
    shape : tuple of int
        Its shape.
    finite : float
        Share of its elements that are finite, from 0 to 1; NaN of none.
    error : float or None
        Largest difference from the file in float64 from the start, of the peak of that; None where that is not known.
    snr : float or None
        Level of the right output over the error, in dB; infinite of no error, None where it is not known or not finite.
    optimised : float or None
        Largest difference that optimisation makes, of the peak; None where the runtime stops then.
    threads : float or None
        The same of two threads in place of one.
    again : bool or None
        Whether a second call gives the same bits.
    sketch : mapping
        What a record holds of its values: see `kokoro_nb.traces.record.sketched`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    finite: float
    error: float | None
    snr: float | None
    optimised: float | None = None
    threads: float | None = None
    again: bool | None = None
    sketch: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    @classmethod
    def of(cls, name: str, array: np.ndarray, true: np.ndarray | None, **more: Any) -> "OutputSummary":
        """Compare an output with what is right, if that is known; `more` is what else is known of it."""
        finite = float(np.isfinite(array.astype(np.float64)).mean()) if array.size else float("nan")
        apart, level = (None if true is None else how(array, true) for how in (relative_difference, signal_to_noise))
        return cls(name, array.dtype.name, array.shape, finite, apart, level, sketch=sketched(array), **more)


def signal_to_noise(value: np.ndarray, right: np.ndarray) -> float | None:
    """Return the level of `right` over that of the difference, in dB, over all elements in float64.

    No constant is added to either: it is infinite if nothing differs, and None if shapes differ, anything is not
    finite, or what is right is silent while the other is not.
    """
    noise = relative_noise(value, right)
    return decibels(1.0, noise**2) if np.isfinite(noise) and is_finite(right) else None


def summaries(seen: FileRun) -> Iterator[OutputSummary]:
    """Compare each output with that of the file run in other ways, its random nodes pinned."""
    for name, value in seen.outputs.items():
        if not isinstance(value, np.ndarray) or not (is_float(value.dtype) or value.dtype.kind in "iub"):
            continue
        true = None if seen.true.get(name) is None else np.asarray(seen.true[name])
        others = [seen.others[way] for way in onnx_model.WAYS]
        optimised, threads = (None if isinstance(x, str) else relative_difference(x[name], value) for x in others)
        again = np.asarray(seen.others["again"][name]).tobytes() == value.tobytes()
        yield OutputSummary.of(name, value, true, optimised=optimised, threads=threads, again=again)


def whole_findings(seen: FileRun, outputs: tuple[OutputSummary, ...], wrong: bool) -> Findings:
    """Name what is wrong with the file as a whole, and what was noticed.

    Parameters
    ----------
    seen : FileRun
        What was seen of its nodes.
    outputs : tuple of OutputSummary
        Its outputs.
    wrong : bool
        Whether a node is named already: then the type of the file is not blamed for the outputs' error.
    """
    loud, quiet = imprecise(seen.nodes, seen.judgements, () if wrong else outputs)
    found, notes = [], [*unread_inputs(seen.inputs, seen.nodes), *constants_noted(seen.file), *quiet]
    notes += _narrowing_casts(seen.nodes, outputs)
    halves = has_halves(seen.judgements)
    for what, reason in seen.others.items():
        if isinstance(reason, str):
            statement = f"The file runs plainly, and {what} it does not."
            blame: Blame = "precision" if halves else "runtime"  # what is optimised is rounded at other places
            found.append(InspectionFinding("optimisation", blame, statement, proof=(reason,)))
    first_optimised = cache(lambda: _first_optimised(seen))  # it optimises the file and runs it twice
    first = {run: node for node, run in reversed([*seen.unlike.items()])}
    for one in outputs:
        floor = 2.0**-BITS if halves else FLOOR
        rounding = floor if one.error is None or not np.isfinite(one.error) else float(np.maximum(one.error, floor))
        for share, what in ((one.optimised, "Graph optimisation"), (one.threads, "A second thread")):
            if share is not None and not share <= TIMES * rounding:
                statement = f"{what} changes the output '{one.name}' by {number(share)} of its peak."
                proof = f"Rounding of the whole file accounts for {number(rounding)} of the peak."
                node = first.get(THREADS) if share is one.threads else first_optimised()
                found.append(_at(node, "optimisation", statement, proof))
    found += unstable(outputs, first.get(AGAIN))
    unread = list(_unread_frames(seen)) if seen.file.size <= HEAVY else []  # it runs on longer inputs
    notes += [one.statement for one, lost in unread if not lost]
    return (*found, *loud, *(one for one, lost in unread if lost)), tuple(notes)


def _narrowing_casts(nodes: Sequence[OnnxNode], outputs: Sequence[OutputSummary]) -> Iterator[str]:
    """Say in a sentence which casts round to 16 bits what other casts make float32 again: nothing is computed so."""
    to = {node.outputs[0]: OnnxCall(node.proto, {}).get("to") for node in nodes if node.operator == "Cast"}
    read = {(name, to.get(made)) for node in nodes for name in node.reads for made in node.outputs}
    wide = {name for name, kind in read if kind == FLOAT} - {name for name, kind in read if kind != FLOAT}
    found = [node for node in nodes if wide & {*node.outputs} and to.get(node.outputs[0]) in HALVES]
    off = (f"'{one.name}' is {number(one.error)} of its peak off float64 without them" for one in outputs if one.error)
    if found:
        words = f"Casts that round to 16 bits between nodes of float32: {len(found)}, first {found[0]}"
        yield f"{'; '.join([words, *off][:2])}."


def unstable(outputs: Sequence[OutputSummary], first: OnnxNode | None = None) -> list[InspectionFinding]:
    """Return as findings the outputs that a second call on the same inputs changes, with the node that begins it."""
    named = [f"A second call gives another output '{one.name}'." for one in outputs if one.again is False]
    return [_at(first, "unstable", statement, "The inputs are the same bits.") for statement in named]


def unread_inputs(names: Iterable[str], nodes: Sequence[Any]) -> tuple[str, ...]:
    """Name in a sentence each the inputs that no node reads; each node has ``reads``."""
    read = {name for node in nodes for name in node.reads}
    return tuple(f"No node reads the input '{name}': it changes no output." for name in names if name not in read)


def _unread_frames(seen: FileRun) -> Iterator[tuple[InspectionFinding, bool]]:
    """Yield the open axes of inputs of which no more than a fixed beginning reaches an output, however long they are.

    With each whether some of the inputs is lost so, too. A file that is given a length is left out: it says how much is
    read.
    """
    places: dict[str, dict[str, int]] = {}
    for value in seen.file.inputs:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if size.dim_param and seen.inputs[value.name].shape[axis] > 1:
                places.setdefault(size.dim_param, {})[value.name] = axis
    sized = {name for axes in places.values() for name in axes}
    if not places or any(one.dtype.kind in "iu" for name, one in seen.inputs.items() if name not in sized):
        return
    session = onnx_model.session_of(seen.file.model)
    for symbol, axes in places.items():
        name, axis = next(iter(axes.items()))
        length = seen.inputs[name].shape[axis]
        try:
            read = _read_until(session, seen.inputs, axes, 2)
            other = 1 if read < length else 4
            if read == 2 * length or _read_until(session, seen.inputs, axes, other) != read:
                continue
        except InputError:  # it does not run at that length
            continue
        readers = [node for node in seen.nodes if name in node.reads]
        statement = f"No output depends on '{name}' from {read} on along axis {axis}, though the file leaves that"
        statement += f" length open ({symbol}); it is read by {', '.join(one.key for one in readers[:5])}."
        proof = f"Other values there leave every output as it is, at the lengths {2 * length} and {other * length}."
        # without a place, so that it stands after what a comparison finds at a node
        yield InspectionFinding.at(readers[0], "structure", "file", statement, proof, index=-1), read < length


def _read_until(session: Any, inputs: Arrays, axes: Mapping[str, int], times: int) -> int:
    """Return the least place of repeated inputs from which on other values change no output; their length if none."""
    repeated = {name: np.concatenate([inputs[name]] * times, axis) for name, axis in axes.items()}
    right = onnx_model.run_session(session, {**inputs, **repeated})
    length = next(repeated[name].shape[axis] for name, axis in axes.items())

    def same(start: int) -> bool:
        changed = dict(inputs)
        for name, axis in axes.items():
            value = np.moveaxis(repeated[name].copy(), axis, 0)
            value[start:] = 1 - value[start:] if value.dtype.kind == "f" else value[0]
            changed[name] = np.ascontiguousarray(np.moveaxis(value, 0, axis))
        given = onnx_model.run_session(session, changed)
        return all(np.array_equal(np.asarray(given[name]), np.asarray(one)) for name, one in right.items())

    return bisect_left(range(length - 1), True, key=same) if same(length - 1) else length


def _at(node: OnnxNode | None, kind: str, statement: str, proof: str) -> InspectionFinding:
    """Return a finding of the whole file, with the node at which it begins, if that is known."""
    if node is None:
        return InspectionFinding(kind, "runtime", statement, proof=(proof,))
    words = f"{statement[:-1]}; the first value that differs is that of {node}."
    found = InspectionFinding.at(node, kind, "runtime", words, proof, index=-1)
    drawn = (*found.proof, "Its body draws at random.")
    return replace(found, blame="file", proof=drawn) if draws_inside(node.proto) else found


def _first_optimised(seen: FileRun) -> OnnxNode | None:
    """Return the first node whose result the optimised graph still has, and has otherwise."""
    model = onnx_model.optimised(seen.file.model)
    made = {name for node in model.graph.node for name in node.output}
    names = [name for node in seen.nodes for name in node.outputs if name in made]
    given, right = (run_once(one, seen.inputs, names) for one in (model, seen.file.model))
    apart = {name: relative_difference(np.asarray(given[name]), np.asarray(right[name])) for name in names}
    return next((one for one in seen.nodes if any(apart.get(name, 0.0) > TIMES * FLOOR for name in one.outputs)), None)


def imprecise(nodes: Sequence[Any], judgements: Sequence[NodeJudgement], outputs: Sequence[OutputSummary]) -> Findings:
    """Return as findings, or of float32 as notes, the outputs that rounding alone puts too far off.

    Parameters
    ----------
    nodes : sequence of OnnxNode or ComparedNode
        In the order of execution.
    judgements : sequence of NodeJudgement
        Of each of them.
    outputs : sequence of OutputSummary
        Of the file; none where a node is named already.
    """
    loud = [one for one in outputs if one.snr is not None and one.snr < AUDIBLE]
    noise, rounding = amplifier(nodes, judgements) if loud else ("", None)
    why = f"though every node that was judged is right for its type{noise}"
    words = f"dB above its own rounding error (limit {AUDIBLE:g} dB), {why}"
    said = tuple(f"The output '{one.name}' is {number(one.snr)} {words}." for one in loud)
    if not has_halves(judgements):
        return (), said
    place = InspectionFinding if rounding is None else partial(InspectionFinding.at, rounding, mechanism=ROUNDED)
    return tuple(place("precision", "precision", one) for one in said), ()


def amplifier(nodes: Sequence[Any], judgements: Sequence[NodeJudgement]) -> tuple[str, Any]:
    """Return in words at which node most noise enters; nothing if none adds a hundredth of its result.

    With it the nearest node before it that rounds to 16 bits, if that explains the noise of its input. Each node has
    ``key``, ``operator``, ``reads`` and ``outputs``: an `OnnxNode` or a `ComparedNode`.
    """
    noises: dict[str, float] = {}
    rows, narrow = [], dict[str, Any]()
    for node, judgement in zip(nodes, judgements, strict=False):
        if judgement.noise is not None and np.isfinite(judgement.noise):
            before = float(np.max([noises.get(name, 0.0) for name in node.reads], initial=0.0))
            rows.append((node, judgement.noise, before))
            noises |= dict.fromkeys(node.outputs, judgement.noise)
            narrow |= dict.fromkeys(node.outputs if has_halves([judgement]) else (), node)
    made = {name: node for node in nodes for name in node.outputs}
    for words, node, before in most_noise(rows):
        near = {name: one for name, one in narrow.items() if noises[name] >= before / 2}
        pending = [] if node in narrow.values() else list(node.reads)
        for name in pending:  # which grows meanwhile
            read = getattr(made.get(name), "reads", ())
            if name in near and not near.keys() & {*read}:  # else it may only move what another one rounds
                return f"; most noise enters at {words}; {near[name]} rounds to 16 bits before it", near[name]
            pending += [one for one in read if one not in pending]
        return f"; most noise enters at {words}", None
    return "", None


def half_precision_findings(seen: FileRun) -> Iterator[InspectionFinding]:
    """Yield what a runtime that computes in the file's own float16 makes wrong, though the one here does not."""
    for one in seen.foresight:
        if one.operator in MEANS and one.headroom >= 0 and not one.inside >= 0:
            words = f"The sum inside of {one} is {number(LARGEST / 2**one.inside)}"
            words += f", beyond {number(LARGEST)}, the largest float16: infinite where it is added in float16."
            yield InspectionFinding.at(one, "precision", "precision", words, "The runtime here adds in float32.")
    made = {name: node for node in seen.nodes for name in node.outputs}
    noises = {one.index: one.noise for one in seen.foresight}
    ends = {name: noises.get(made[name].index, 0.0) for name in seen.outputs if name in made}
    lossy = next((one for one in seen.foresight if one.noise > LOST and one.before <= 2.0**-BITS), None)
    shown = next((name for name, noise in ends.items() if noise > LOST), None)
    if lossy is None or shown is None:
        return
    givers = [made[name].key for name in seen.nodes[lossy.index].reads if name in made]
    given = f", which {', '.join(givers)} gives" if givers else ""
    level, limit = (number(-20 * np.log10(noise)) for noise in (ends[shown], LOST))
    statement = f"{lossy} loses {lossy.noise:.2%} of its result to the rounding of its input to float16{given}: where"
    statement += f" each node rounds to the file's types, the output '{shown}' is {level} dB above its error (limit"
    statement += f" {limit} dB)."
    proof = "The runtime here keeps float32 from one node to the next; one with kernels of float16 does not."
    yield InspectionFinding.at(lossy, "precision", "precision", statement, proof)


def constants_noted(file: OnnxFile) -> tuple[str, ...]:
    """Name constants that stand exactly where converters to 16 bits cut them, in one sentence for each limit."""
    found = []
    at: dict[float, list[tuple[int, str]]] = {}
    floats = ((name, one) for name, one in named_constants(file).items() if is_float(one.dtype))
    for name, array in floats:
        size = np.abs(array.astype(np.float64))
        if not np.isfinite(size).all():
            found.append(f"The constant '{name}' holds {int((~np.isfinite(size)).sum()):,} values that are not finite.")
        for limit in CLIPPED.get(array.dtype.name, ()):
            count = int((size == float(np.asarray(limit).astype(array.dtype))).sum())
            if count:
                at.setdefault(limit, []).append((count, name))
    for limit, places in at.items():
        total, example = sum(count for count, _ in places), min(places, key=lambda one: -one[0])[1]
        words = f"{total:,} values of {len(places):,} constants, such as '{example}', are exactly {number(limit)},"
        why = "where converters to 16 bits cut constants; only a comparison with the original says whether they did"
        found.append(f"{words} {why}.")
    return tuple(found)


def named_constants(file: OnnxFile) -> Mapping[str, np.ndarray]:
    """Return the initialisers, and what nodes of the kind Constant give, by name."""
    nodes = (node for node in file.model.graph.node if node.op_type == "Constant")
    made = {node.output[0]: one.t for node in nodes for one in node.attribute if one.HasField("t")}
    return TensorArrays(file.tensors | made)
