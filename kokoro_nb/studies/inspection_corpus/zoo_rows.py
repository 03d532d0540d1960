"""Each file of the zoo inspected: how many of its nodes are judged, why the others are not, and what was accused."""

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kokoro_nb.inspection import inspect
from kokoro_nb.studies.inspection_corpus.zoo_entries import ZooFile


@dataclass(frozen=True)
class ZooRow:
    """What an inspection said of one healthy file.

    Attributes
    ----------
    case : str
        Program and writer.
    verdict : str
        ``pass``, ``fail`` or ``unknown``.
    nodes, judged : int
        How many there are and how many were judged; what draws at random counts as judged.
    reasons : dict of str to int
        Why the others were not, and how many for each reason.
    alarms : tuple of str
        What was accused: none, if all is well.
    seconds : float
        How long it took, with the writing of the file.
    """

    case: str
    verdict: str
    nodes: int
    judged: int
    reasons: dict[str, int]
    alarms: tuple[str, ...]
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether nothing is accused and each node is judged or has a reason."""
        return not self.alarms and all(self.reasons) and self.judged + sum(self.reasons.values()) == self.nodes > 0


def zoo_row(one: ZooFile) -> ZooRow:
    """Write a file of the zoo, and inspect it."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = one.written(Path(folder))
        report = inspect(path, inputs)
    reasons = Counter(judgement.reason for judgement in report.unjudged)
    return ZooRow(
        one.name,
        report.verdict,
        report.nodes,
        len(report.judgements) - len(report.unjudged),
        dict(reasons),
        tuple(finding.statement for finding in report.findings),
        time.perf_counter() - start,
    )
