"""What is wrong with a file, and whether the file, the runtime, the number type or the input is to blame for it."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kokoro_nb.inspection.node_judgement import NodeJudgement, NodeOutputError
from kokoro_nb.locate.culprit import Mechanism
from kokoro_nb.markup import number

Blame = Literal["file", "runtime", "precision", "input", "unknown"]


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


def stated(node: NodeJudgement, worst: NodeOutputError) -> str:
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
