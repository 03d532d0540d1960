"""Whether the file, the runtime, the number type or the input is to blame, and by what that was shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.file_run import FileRun, is_finite
from kokoro_nb.inspection.node_judgement import NodeJudgement, NodeOutputError, judged_outputs
from kokoro_nb.inspection.one_operator import one_operator
from kokoro_nb.inspection.onnx_nodes import OnnxNode
from kokoro_nb.inspection.onnx_session import run_session, session_of, tapped
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall
from kokoro_nb.inspection.value_types import Arrays, Value, Values
from kokoro_nb.locate.culprit import Mechanism
from kokoro_nb.markup import number

Blame = Literal["file", "runtime", "precision", "input", "unknown"]
SHOWN_ALONE = 20  # wrong nodes that are run alone
REPRODUCED = 0.99  # share of a node's error that it must show alone


@dataclass(frozen=True)
class InspectionFinding:
    """One thing that is wrong.

    Attributes
    ----------
    kind : str
        ``nonfinite``, ``wrong``, ``optimisation``, ``unstable``, ``precision`` or ``constant``.
    blame : str
        ``file``, ``runtime``, ``precision`` (the file's number type), ``input`` or ``unknown``.
    statement : str
        What is wrong, in a sentence.
    key : str
        The node's id in Model Explorer; empty where it is the file as a whole.
    operator : str
        The node's operator.
    index : int
        Its place in the order of execution; -1 for the whole file.
    proof : tuple of str
        What shows where the blame lies, a sentence each.
    counterpart : str
        Of a comparison the operator of the reference in whose place the node stands; empty where it is not known.
    mechanism : Mechanism or None
        Of a comparison what happened, as far as the evidence goes.
    """

    kind: str
    blame: Blame
    statement: str
    key: str = ""
    operator: str = ""
    index: int = -1
    proof: tuple[str, ...] = ()
    counterpart: str = ""
    mechanism: Mechanism | None = None

    @classmethod
    def at(cls, node: Any, kind: str, blame: Blame, statement: str, *proof: str) -> "InspectionFinding":
        """Return a finding at a node, anything with ``key``, ``operator`` and ``index``."""
        return cls(kind, blame, statement, node.key, node.operator, node.index, proof)


def node_findings(
    seen: FileRun, others: Callable[[], Arrays | None]
) -> tuple[tuple[InspectionFinding, ...], tuple[str, ...]]:
    """Name the nodes that are wrong and where not finite values begin.

    Parameters
    ----------
    seen : FileRun
        What was seen.
    others : callable
        Returns other valid inputs of the same file, or None.

    Returns
    -------
    tuple of InspectionFinding
        In the order of execution.
    tuple of str
        What was noticed and is no fault.
    """
    found: list[InspectionFinding] = []
    notes: list[str] = []
    unsound = [name for name, value in seen.inputs.items() if not is_finite(value)]
    if unsound:
        found.append(InspectionFinding("nonfinite", "input", f"The input '{unsound[0]}' itself is not finite."))
    began = bool(unsound)
    kept_wide = sum(judgement.kept_wide for judgement in seen.judgements)
    for node, judgement in zip(seen.nodes, seen.judgements, strict=False):
        if judgement.verdict == "fail":
            found.append(_wrong(seen, node, judgement) if len(found) < SHOWN_ALONE else _untried(node, judgement))
        elif not judgement.finite and judgement.given_finite and judgement.verdict == "pass":
            finding, note = _not_finite(seen, judgement, others, began)
            began = began or finding is not None
            found += [finding] if finding else []
            notes += [note] if note else []
    if not began and not all(is_finite(value) for value in seen.outputs.values()):
        found += [one for one in (_of_constant(seen),) if one is not None]
    if kept_wide:
        notes.append(
            f"{kept_wide} nodes of 16 bits differ from their definition by less than half a unit of what goes into "
            "them: the runtime keeps float32 between nodes."
        )
    return tuple(found), tuple(notes)


def _wrong(seen: FileRun, node: OnnxNode, judgement: NodeJudgement) -> InspectionFinding:
    """Return who is to blame for a node that rounding does not explain."""
    worst = judgement.worst
    assert worst is not None
    values = seen.captured(node)
    call, inputs = seen.call(node, values)
    kind = "nonfinite" if worst.finite < 1 and worst.right_finite > worst.finite else "wrong"
    statement = stated(node, worst)
    try:
        one = one_operator(seen.file, node, values)
        alone = _error(call, inputs, one.run(), worst)
    except InputError as error:
        return InspectionFinding.at(judgement, kind, "unknown", statement, str(error))
    if alone is None or not alone.is_wrong:
        proof = "Alone, on the same values, the node is right: the runtime computes it otherwise inside this graph."
        return InspectionFinding.at(judgement, kind, "runtime", statement, proof)
    proof = f"Alone in a model of its own the node shows {_share(alone, worst)} of the error."
    try:
        reference = _error(call, inputs, one.by_reference(), worst)
    except InputError as error:
        return InspectionFinding.at(judgement, kind, "unknown", statement, proof, str(error))
    if reference is None or reference.is_wrong:
        other = "onnx's reference evaluator does not agree with float64 here either; either may be meant."
        return InspectionFinding.at(judgement, kind, "unknown", statement, proof, other)
    other = (
        "onnx's reference evaluator, in the file's own types, agrees with float64: "
        f"{number(reference.ratio)} times what rounding explains, where the runtime has {number(alone.ratio)} times."
    )
    return InspectionFinding.at(judgement, kind, "runtime", statement, proof, other)


def _untried(node: OnnxNode, judgement: NodeJudgement) -> InspectionFinding:
    worst = judgement.worst
    assert worst is not None
    proof = f"Not run alone: it is not among the first {SHOWN_ALONE} that are wrong."
    return InspectionFinding.at(judgement, "wrong", "unknown", stated(node, worst), proof)


def _share(alone: NodeOutputError, worst: NodeOutputError) -> str:
    if worst.error == 0:
        return "all" if alone.wrong >= REPRODUCED * worst.wrong else "part"
    return f"{np.minimum(alone.error / worst.error, 1):.1%}"


def _error(call: OnnxCall, inputs: list[Value], results: Values, worst: NodeOutputError) -> NodeOutputError | None:
    """Return how far the same output is off in other results of the same node."""
    given = [results.get(name) if name else None for name in call.node.output]
    try:
        errors, _ = judged_outputs(call, inputs, given)
    except NotDefined:
        return None
    return next((one for one in errors if one.name == worst.name), None)


def _not_finite(
    seen: FileRun, judgement: NodeJudgement, others: Callable[[], Arrays | None], began: bool
) -> tuple[InspectionFinding | None, str]:
    """Return who is to blame for a node that rightly gives what is not finite, out of finite values."""
    worst = next(one for one in judgement.outputs if one.finite < 1)
    share = f"{1 - worst.finite:.2%} of its result ({worst.dtype}, {worst.pattern or 'as its definition says'})"
    where = f"{judgement.key} ({judgement.operator})"
    if judgement.true_finite:
        statement = f"{where} gives the first values that are not finite here: {share}."
        proof = (
            "In float64 from the start the same file is finite here, and the node does what its definition says: "
            f"what goes into it, or comes out of it, is beyond {worst.dtype}."
        )
        return InspectionFinding.at(judgement, "nonfinite", "precision", statement, proof), ""
    masked = all(is_finite(value) for value in seen.outputs.values())
    if masked or began:
        return None, "" if began else f"{where} gives {share} that is not finite; no output of the file shows it."
    statement = f"{where} gives the first values that are not finite: {share}."
    if judgement.true_finite is None:
        why = "What the file gives in float64 up to here is not known."
        return InspectionFinding.at(judgement, "nonfinite", "unknown", statement, why), ""
    law = "The node does what its definition says, and float64 from the start is not finite here either."
    again = _again(seen, judgement, others)
    if again is None:
        none = "No other inputs could be tried."
        return InspectionFinding.at(judgement, "nonfinite", "unknown", statement, law, none), ""
    other = "On other inputs it is not finite either." if again else "On other inputs it is finite."
    blame: Blame = "file" if again else "input"
    return InspectionFinding.at(judgement, "nonfinite", blame, statement, law, other), ""


def _of_constant(seen: FileRun) -> InspectionFinding | None:
    """Return the first node that is given a constant which is not finite, and gives what is not; None without one."""
    unsound = {name for name, value in seen.file.constants.items() if not is_finite(value)}
    for node, judgement in zip(seen.nodes, seen.judgements, strict=False):
        held = [name for name in node.reads if name in unsound]
        if held and not judgement.finite:
            statement = (
                f"{judgement.key} ({judgement.operator}) is given the constant '{held[0]}', which is not finite."
            )
            proof = "Nothing before it is not finite, and an output of the file is not."
            return InspectionFinding.at(judgement, "nonfinite", "file", statement, proof)
    return None


def _again(seen: FileRun, judgement: NodeJudgement, others: Callable[[], Arrays | None]) -> bool | None:
    """Return whether the node gives what is not finite on other inputs as well; None if there are none."""
    inputs = others()
    if inputs is None:
        return None
    names = [one.name for one in judgement.outputs]
    try:
        values = run_session(session_of(tapped(seen.file.model, names)), inputs)
    except InputError:
        return None
    return not all(is_finite(value) for value in values.values())


def stated(node: OnnxNode | NodeJudgement, worst: NodeOutputError) -> str:
    """Return in a sentence how a node is wrong."""
    where = f"{node.key} ({node.operator})"
    if worst.finite < worst.right_finite:
        return (
            f"{where} gives {1 - worst.finite:.2%} values that are not finite, of which "
            f"{1 - worst.right_finite:.2%} should be: {worst.pattern}."
        )
    if worst.finite > worst.right_finite:
        return f"{where} gives finite values where its definition gives none: {worst.pattern}."
    steps = f"{number(worst.ulp)} units in the last place of {worst.dtype}"
    times = f", {number(worst.ratio)} times what rounding explains" if np.isfinite(worst.ratio) else ""
    of_peak = (
        f"{number(worst.error / worst.peak)} of its peak" if worst.peak else f"{number(worst.error)} where 0 is right"
    )
    return f"{where} is wrong by {of_peak} ({steps}{times}): {worst.pattern}."
