"""What the judgements of a run come to: findings with their blame, and for each a script that shows its error."""

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from kokoro_nb.defects.catalogue import write_shown
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.node_judgement import NodeJudgement, NodeOutputError, is_finite
from kokoro_nb.inspection.value_types import Arrays, Value, Values
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
    def at(cls, node: Any, kind: str, blame: Blame, statement: str, *proof: str, **more: Any) -> "InspectionFinding":
        """Return a finding at a node, anything with ``key``, ``operator`` and ``index``; `more` is for other fields."""
        return replace(cls(kind, blame, statement, node.key, node.operator, node.index, proof), **more)


Findings = tuple[tuple[InspectionFinding, ...], tuple[str, ...]]  # what is wrong, and what was noticed and is no fault


def stated(node: NodeJudgement, worst: NodeOutputError) -> str:
    """Return in a sentence how a node is wrong."""
    if worst.finite < worst.right_finite:
        lost, right = f"{1 - worst.finite:.2%}", f"{1 - worst.right_finite:.2%}"
        return f"{node} gives {lost} values that are not finite, of which {right} should be: {worst.pattern}."
    if worst.finite > worst.right_finite:
        return f"{node} gives finite values where its definition gives none: {worst.pattern}."
    steps = f"{number(worst.ulp)} units in the last place of {worst.dtype}"
    times = f", {number(worst.ratio)} times the rounding-error bound" if np.isfinite(worst.ratio) else ""
    far = f"{number(worst.error / worst.peak)} of its peak" if worst.peak else f"{number(worst.error)} where 0 is right"
    return f"{node} is wrong by {far} ({steps}{times}): {worst.pattern}."


SHOWN_ALONE = 20  # wrong nodes that are run alone
ELSEWHERE: dict[bool | None, tuple[Blame, str]] = {
    None: ("unknown", "No other inputs were tried."),
    True: ("file", "On other inputs it is not finite either."),
    False: ("input", "On other inputs it is finite."),
}
"""What is to blame for what is not finite, by whether it is so on other inputs as well."""


@dataclass(frozen=True, eq=False)
class OperatorAlone:
    """How one operator is run by itself.

    Attributes
    ----------
    needs : str
        The packages it needs, in words.
    lines : str
        Python that computes ``given`` from ``saved`` and what lies in ``here``, its imports first.
    values : dict of str to numpy.ndarray
        What ``saved`` holds.
    """

    needs: str
    lines: str
    values: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class JudgedRun(Protocol):
    """What was seen of a file on one set of inputs.

    Attributes
    ----------
    nodes : tuple of OnnxNode or Operator
        Its nodes in order.
    judgements : tuple of NodeJudgement
        One for each node that was reached, in order.
    inputs : dict of str to numpy.ndarray
        What it was run on.
    outputs : dict of str to value
        What it gives.
    true : dict of str to value
        The same in float64 from the start; an output is missing where a node before it has no definition here.
    """

    nodes: Sequence[Any]
    judgements: tuple[NodeJudgement, ...]
    inputs: Arrays
    outputs: Values
    true: Values

    @property
    def complete(self) -> bool:
        """Whether every node was reached within the time."""
        return len(self.judgements) == len(self.nodes)

    def blamed(self, judgement: NodeJudgement) -> tuple[Blame, tuple[str, ...]]:
        """Return who is to blame for a node that rounding does not explain, and what shows it."""

    def is_unsound_elsewhere(self, judgement: NodeJudgement) -> bool | None:
        """Return whether a node gives what is not finite on other inputs as well; None if there are none."""

    def alone(self, judgement: NodeJudgement, place: Path) -> OperatorAlone:
        """Write a node by itself into a folder, and return how it is run; its values hold ``right``, the result."""

    def division(self, judgement: NodeJudgement) -> tuple[Value, Value] | None:
        """Return the divisor and the quotient of a node that divides; None if it does not, or they are not known."""

    def unsound_constants(self, judgement: NodeJudgement) -> Collection[str]:
        """Return the constants that a node reads and that are not finite, as far as they are known."""
        return ()


def node_findings(seen: JudgedRun) -> Findings:
    """Name the nodes that are wrong and where values that are not finite begin.

    Returns
    -------
    tuple of InspectionFinding
        In the order of execution.
    tuple of str
        What was noticed and is no fault.
    """
    unsound = [name for name, value in seen.inputs.items() if not is_finite(value)]
    found = [InspectionFinding("nonfinite", "input", f"The input '{one}' itself is not finite.") for one in unsound[:1]]
    notes, began = list[str](), bool(unsound)
    for judgement in seen.judgements:
        if judgement.verdict == "fail":
            found.append(_wrong(seen, judgement, len(found) < SHOWN_ALONE))
        elif not judgement.finite and judgement.given_finite and judgement.verdict == "pass":
            finding, note = _not_finite(seen, judgement, began)
            began = began or finding is not None
            found += [finding] if finding else []
            notes += [note] if note else []
    if not began and not all(map(is_finite, seen.outputs.values())):
        found += [*_of_constant(seen)][:1]
    kept_wide = sum(judgement.kept_wide for judgement in seen.judgements)
    if kept_wide:
        words = f"{kept_wide} nodes of 16 bits differ from their definition by less than half a unit of their inputs"
        notes.append(f"{words}: the runtime keeps float32 between nodes.")
    if not seen.complete:
        notes.insert(0, f"The time was up after {len(seen.judgements):,} of {len(seen.nodes):,} nodes.")
    return tuple(found), tuple(notes)


def _wrong(seen: JudgedRun, judgement: NodeJudgement, alone: bool) -> InspectionFinding:
    worst = judgement.worst
    assert worst is not None
    kind = "nonfinite" if worst.finite < worst.right_finite else "wrong"
    none = (f"Not run alone: it is not among the first {SHOWN_ALONE} that are wrong.",)
    blame, proofs = seen.blamed(judgement) if alone else ("unknown", none)
    return InspectionFinding.at(judgement, kind, blame, stated(judgement, worst), *proofs)


def _not_finite(seen: JudgedRun, node: NodeJudgement, began: bool) -> tuple[InspectionFinding | None, str]:
    """Return who is to blame for a node that rightly gives what is not finite, out of finite values."""
    worst = next(one for one in node.outputs if one.finite < 1)
    share = f"{1 - worst.finite:.2%} of its result ({worst.dtype}, {worst.pattern or 'as its definition says'})"
    if not node.true_finite and (began or all(map(is_finite, seen.outputs.values()))):
        return None, "" if began else f"{node} gives {share} that is not finite; no output of the file shows it."
    said = {True: "is finite here", False: "is not finite here either", None: "is not known"}[node.true_finite]
    law, blame, other = f"The node does what its definition says, and float64 from the start {said}.", *ELSEWHERE[None]
    if node.true_finite:
        blame, other = "precision", f"Its input or its result is beyond {worst.dtype}."
    elif node.true_finite is not None:
        blame, other = ELSEWHERE[seen.is_unsound_elsewhere(node)]
    statement = f"{node} gives the first values that are not finite{' here' * bool(node.true_finite)}: {share}."
    finding = InspectionFinding.at(node, "nonfinite", blame, statement, law, other)
    divisor, quotient = np.broadcast_arrays(*map(np.asarray, seen.division(node) or (1.0, np.nan)))
    if (divisor[~np.isfinite(quotient)] != 0).any():  # not all of it was divided by zero
        return finding, ""
    words = f"{np.mean(divisor == 0):.2%} of the divisors are 0, and all that is not finite is divided by them"
    return replace(finding, mechanism=Mechanism("division by zero", "a divisor is 0", (words,))), ""


def _of_constant(seen: JudgedRun) -> Iterator[InspectionFinding]:
    """Yield the nodes that are given a constant which is not finite, and give what is not."""
    for judgement in (one for one in seen.judgements if not one.finite):
        for name in seen.unsound_constants(judgement):
            statement = f"{judgement} is given the constant '{name}', which is not finite."
            proof = "Nothing before it is not finite, and an output of the file is not."
            yield InspectionFinding.at(judgement, "nonfinite", "file", statement, proof)


SCRIPTS = 10  # findings for which a script is written
SHOWN = 0.99  # share of the error that it must show
SHOW = "show.py"
Written = tuple[tuple[Path, ...], tuple[str, ...]]

SCRIPT = '''\
"""{statement}

Needs numpy and {needs}. One operator, its input values, and its result in float64; exits with 1 while it is wrong.
"""
import sys
from pathlib import Path

import numpy as np
{imports}

here = Path(__file__).parent
saved = np.load(here / "values.npz")
{lines}
given, right = given.astype(np.float64), saved["right"]
finite, should = np.isfinite(given), np.isfinite(right)
error = np.abs(given - right)[finite & should].max(initial=0.0)
print(f"finite {{finite.mean():.4%}}, should be {{should.mean():.4%}}")
print(f"largest error {{error:.6g}}, in the file {error:.6g}")
sys.exit(int({wrong}))
'''
WRONG = '(finite != should).any() or error >= float("{least:.6g}") > 0'


def write_scripts(findings: tuple[InspectionFinding, ...], seen: JudgedRun, folder: Path) -> Written:
    """Write a script for each finding and run it; return the paths of those that show the error, and why others do not.

    Parameters
    ----------
    findings : tuple of InspectionFinding
        What was found.
    seen : JudgedRun
        Of the file.
    folder : path
        Where a folder for each is made.
    """
    paths: list[Path] = []
    notes: list[str] = []
    known = {one.key: one for one in seen.judgements}
    for count, finding in enumerate(findings, 1):
        place = folder / f"finding_{count}"
        try:
            if count > SCRIPTS:
                raise InputError(f"scripts are written for the first {SCRIPTS} findings.")
            judgement = known.get(finding.key)
            if judgement is None or judgement.worst is None:
                raise InputError("it is not found at one operator.")
            if judgement.verdict != "fail" and (finding.kind != "nonfinite" or judgement.finite):
                raise InputError("the operator does what its definition says; it is the comparison that parts here.")
            right = "in a process of its own, on the same values, it is right."
            paths.append(write_shown(place, SHOW, partial(_fill, finding, judgement, seen), {"": 1}, right) / SHOW)
        except InputError as error:
            if (place / SHOW).is_file():  # of an earlier inspection
                shutil.rmtree(place, ignore_errors=True)
            notes.append(f"No script for finding {count} ({finding.key or 'the file as a whole'}): {error}")
    return tuple(paths), tuple(notes)


def _fill(finding: InspectionFinding, judgement: NodeJudgement, seen: JudgedRun, place: Path) -> None:
    """Write the operator, its values and the script."""
    one = seen.alone(judgement, place)
    assert judgement.worst is not None
    error = judgement.worst.error
    statement = finding.statement.replace("\\", "/").replace('"""', "'''")
    imports, _, lines = one.lines.rstrip().partition("\n\n")
    wrong = "not finite.all()" if finding.kind == "nonfinite" else WRONG.format(least=SHOWN * error)
    about = {"statement": statement, "needs": one.needs, "imports": imports, "lines": lines}
    (place / SHOW).write_text(SCRIPT.format(**about, error=error, wrong=wrong), encoding="utf-8")
    np.savez_compressed(place / "values.npz", **dict(one.values))  # type: ignore[arg-type]
