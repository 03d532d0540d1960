"""The verdicts of a whole run in one table: what each notebook found out on each backend."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kokoro_nb.findings import Finding
from kokoro_nb.markup import ORDER
from kokoro_nb.reporting.fragments import WORDS

ALL = "all"


@dataclass(frozen=True)
class Tally:
    """How many findings of one notebook on one backend have one verdict.

    Attributes
    ----------
    verdict : str
        One of ``fail``, ``unknown``, ``skip``, ``pass``.
    count : int
        How many.
    first : int
        Number of the first of them among all of the notebook, from 1: its anchor is ``finding-<first>``.
    """

    verdict: str
    count: int
    first: int

    @property
    def text(self) -> str:
        """The tally in words: ``2 failed``."""
        return f"{self.count} {WORDS[self.verdict]}"


def columns(findings: Iterable[Finding]) -> list[str]:
    """Return `ALL` and the names of the backends that occur in the checks of `findings`, in alphabetical order.

    >>> columns([Finding("finite", "pass", "It is finite.", "mini", backend) for backend in ("tvm", None, "eager")])
    ['all', 'eager', 'tvm']
    """
    return [ALL, *sorted({one.backend for one in findings if one.backend and one.diagnosis is None})]


def tallies(findings: Sequence[Finding]) -> Mapping[str, list[Tally]]:
    """Return the tallies of one notebook by column, the worst verdict first.

    `ALL` counts every check, those that concern no backend too. A backend that none concerns is absent.
    """
    cells = {}
    for column in columns(findings):
        numbered = ((n, one) for n, one in enumerate(findings, 1) if one.diagnosis is None)
        chosen = [(n, one) for n, one in numbered if column in (ALL, one.backend)]
        places = {verdict: [n for n, one in chosen if one.verdict == verdict] for verdict in ORDER}
        cells[column] = [Tally(verdict, len(found), found[0]) for verdict, found in places.items() if found]
    return cells
