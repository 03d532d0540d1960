"""What a study found, a row for each program: saved as a line of JSON, and counted."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready, write_text
from kokoro_nb.studies.localisation.study_runs import OR

Verdict = Literal["exact", "among several", "another", "nothing"]


@dataclass(frozen=True)
class StudyRow:
    """One program on one backend.

    Attributes
    ----------
    faults : tuple of str
        What was planted: see `faults.Fault.parse`; none in the healthy program.
    operators : tuple of tuple of str
        Of each fault, the names of all results of its operator.
    named : dict
        Method -> what it named, in order.
    effect : float
        Largest difference of an output from the healthy program's on the same backend, as a share of its peak; NaN
        where the output is not finite.
    floor : float
        Of the healthy program on this backend against float64, in the same terms.
    uncaptured : tuple of str
        Operators with a fault whose result the backend did not show.
    failure : str
        Why the program could not be exported or run; empty if it was.
    seconds : dict
        Wall time of planting, export, trace and each method.
    """

    backend: str
    faults: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...] = ()
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    effect: float = float("nan")
    floor: float = float("nan")
    uncaptured: tuple[str, ...] = ()
    failure: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def neutral(self) -> bool:
        """Whether the output is the healthy one, bit for bit or but for rounding."""
        return self.effect <= self.floor

    def verdict(self, method: str) -> Verdict:
        """Say whether `method` named the operators with a fault, and none besides.

        ``among several``: with others, of which one is wrong.
        """
        named = [set(names.split(OR)) for names in self.named[method]]
        if not named:
            return "nothing"
        known = {name for names in self.operators for name in names}
        if not all(names & known for names in named) or not all(set().union(*named) & set(o) for o in self.operators):
            return "another"
        return "exact" if set().union(*named) <= known else "among several"


def read_rows(path: Path) -> list[StudyRow]:
    """Read the rows in the file at `path`; none where there is no file.

    Raises
    ------
    InputError
        If it holds something else.
    """
    if not path.exists():
        return []
    try:
        return [_row(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise InputError(f"{path} holds no rows of a study ({error}); remove it.") from error


def write_rows(path: Path, rows: Iterable[StudyRow]) -> None:
    """Write the rows, a line of JSON each, whole or not at all."""
    lines = [json.dumps(json_ready(asdict(row)), ensure_ascii=False, allow_nan=False) for row in rows]
    write_text(path, "".join(f"{line}\n" for line in lines))


def summarise(rows: Sequence[StudyRow]) -> list[dict[str, Any]]:
    """Count the verdicts, a line for each backend and method.

    Returns
    -------
    list of dict
        ``faults``: programs with a fault whose output shows it, of which ``named exactly``, named ``among several``,
        ``named another`` and ``named nothing``; ``neutral``: those whose output does not show it, and ``of these named
        exactly``; ``healthy blamed``: healthy programs in which something was named; ``failed``: those that could not
        be exported or run.
    """
    pairs = dict.fromkeys((row.backend, method) for row in rows for method in row.named)
    return [_count([row for row in rows if row.backend == backend], backend, method) for backend, method in pairs]


def _count(rows: Sequence[StudyRow], backend: str, method: str) -> dict[str, Any]:
    run = [row for row in rows if not row.failure and method in row.named]
    planted = [row for row in run if row.faults]
    shown = [row.verdict(method) for row in planted if not row.neutral]
    neutral = [row.verdict(method) for row in planted if row.neutral]
    return {
        "backend": backend,
        "method": method,
        "faults": len(shown),
        "named exactly": shown.count("exact"),
        "among several": shown.count("among several"),
        "named another": shown.count("another"),
        "named nothing": shown.count("nothing"),
        "neutral": len(neutral),
        "of these named exactly": neutral.count("exact"),
        "healthy blamed": sum(bool(row.named[method]) for row in run if not row.faults),
        "failed": sum(bool(row.failure) for row in rows),
    }


def _row(about: Mapping[str, Any]) -> StudyRow:
    return StudyRow(
        str(about["backend"]),
        tuple(about["faults"]),
        tuple(tuple(names) for names in about["operators"]),
        {method: tuple(names) for method, names in about["named"].items()},
        float(about["effect"]),
        float(about["floor"]),
        tuple(about["uncaptured"]),
        str(about["failure"]),
        {name: float(value) for name, value in about["seconds"].items()},
    )
