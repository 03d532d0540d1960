"""What an inspection found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.body_runs import BodyRun
from kokoro_nb.inspection.float16_foresight import HalfPrecisionNode
from kokoro_nb.inspection.node_judgement import NodeJudgement
from kokoro_nb.inspection.quantisation_budget import QuantisationBudget
from kokoro_nb.inspection.whole_file import OutputSummary
from kokoro_nb.listening.speech_checks import SpeechCheck
from kokoro_nb.markup import Fragment, table

if TYPE_CHECKING:
    from kokoro_nb.inspection.float16_mend import Float16Mend
    from kokoro_nb.inspection.quantised_mend import QuantisedMend


@dataclass(frozen=True)
class InspectionFacts:
    """What was found in a file.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    runtime : str
        What it was run on, with its version.
    findings : tuple of InspectionFinding
        What is wrong, in the order of execution; then what concerns the file as a whole.
    notes : tuple of str
        What was noticed and is no fault, or could not be decided.
    judgements : tuple of NodeJudgement
        Each node in the order of execution.
    outputs : tuple of OutputSummary
        The outputs of the file.
    inputs : dict of str to str
        How each input was made.
    nodes : int
        How many the file has; fewer judgements than that if the time was up.
    scripts : tuple of pathlib.Path
        A script for each finding at a node, as far as they were written.
    graph : str
        The graph's id in Model Explorer.
    foresight : tuple of HalfPrecisionNode
        What float16 would do to each node of a float32 file.
    bodies : tuple of BodyRun
        What was found inside of its Loop and If nodes, each node in its worst pass.
    budget : QuantisationBudget
        The noise of the layers that are quantised, part by part.
    mended : Float16Mend or QuantisedMend or None
        What the mended file was made by, if one was written.
    checks : tuple of SpeechCheck
        Of a Kokoro what is heard of its difference to what it is compared with; without that, to the same file in
        float64 from the start.
    places : dict of str to tuple of (str, str)
        Of an ONNX file with functions of its own for each node's key the graphs and ids that viewers know it by: those
        of the calls that it came from, and its own.
    """

    path: Path
    runtime: str
    findings: tuple[InspectionFinding, ...]
    notes: tuple[str, ...]
    judgements: tuple[NodeJudgement, ...]
    outputs: tuple[OutputSummary, ...]
    inputs: Mapping[str, str]
    nodes: int
    scripts: tuple[Path, ...] = ()
    graph: str = "<main>"
    foresight: tuple[HalfPrecisionNode, ...] = ()
    bodies: tuple[BodyRun, ...] = ()
    budget: QuantisationBudget = field(default_factory=QuantisationBudget)
    mended: "Float16Mend | QuantisedMend | None" = None
    checks: tuple[SpeechCheck, ...] = ()
    places: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """``fail`` if anything is wrong, ``unknown`` if nodes could not be judged, ``pass`` otherwise."""
        if self.findings:
            return "fail"
        return "unknown" if self.unjudged or len(self.judgements) < self.nodes else "pass"

    @property
    def first(self) -> InspectionFinding | None:
        """The first finding in the order of execution, or None."""
        return self.findings[0] if self.findings else None

    @property
    def unjudged(self) -> tuple[NodeJudgement, ...]:
        """The nodes that could not be judged, without those that draw at random."""
        return tuple(j for j in self.judgements if j.verdict == "unknown" and j.reason != "draws at random")

    def worst(self, n: int = 10) -> tuple[NodeJudgement, ...]:
        """Return the `n` nodes that are furthest off, as multiples of what rounding explains."""
        judged = [judgement for judgement in self.judgements if judgement.worst is not None]
        return tuple(sorted(judged, key=lambda one: -_ratio(one))[:n])

    def table(self) -> Fragment:
        """Return a row for each node."""
        return table([judgement.row() for judgement in self.judgements], "Every node in the order of execution")

    def __str__(self) -> str:
        lines = [f"{self.path.name}: {self.headline}"]
        for finding in self.findings:
            lines.append(f"  [{finding.blame}] {finding.statement}")
            lines += [f"      {proof}" for proof in finding.proof]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  heard, {one.verdict}: {one}" for one in self.checks]
        lines += [f"  not judged: {one}" for one in _grouped(self.unjudged)]
        lines += [f"  input {name}: {how}" for name, how in self.inputs.items()]
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """What was found in one sentence."""
        judged = sum(judgement.verdict != "unknown" for judgement in self.judgements)
        seen = f"{judged:,} of {self.nodes:,} nodes judged on {self.runtime}"
        if self.first is None:
            fine = (
                "nothing wrong was found"
                if self.verdict == "pass"
                else "nothing wrong was found in what could be judged"
            )
            return f"{fine}; {seen}."
        count = len(self.findings)
        more = f" {count - 1} more {'thing is' if count == 2 else 'things are'} wrong." if count > 1 else ""
        return f"{self.first.statement}{more} Blame: {self.first.blame}; {seen}."


def _grouped(unjudged: Iterable[NodeJudgement]) -> list[str]:
    """Return each reason once, with the nodes that it holds for."""
    nodes: dict[str, list[str]] = {}
    for one in unjudged:
        nodes.setdefault(one.reason, []).append(f"{one.key} ({one.operator})")
    return [
        f"{', '.join(names[:3])}{f' and {len(names) - 3:,} more' if len(names) > 3 else ''}: {reason}"
        for reason, names in nodes.items()
    ]


def _ratio(judgement: NodeJudgement) -> float:
    ratio = judgement.worst.ratio if judgement.worst and not judgement.kept_wide else 0.0
    return float("inf") if np.isnan(ratio) else ratio
