"""What changed between two runs of the notebooks: what got worse first, and beside it what they were run with."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings

Kind = Literal["regressed", "missing", "skipped", "worse", "fixed", "better", "new"]
BAD: tuple[Kind, ...] = ("regressed", "missing", "skipped")
FACTOR = 2.0  # a figure that moves less is neither better nor worse: times and last bits move by themselves
_RANK = {"pass": 0, "skip": 1, "unknown": 2, "fail": 3}
_ABOUT = ("weights", "commit", "parameters", "versions")
Key = tuple[str, str, str, str, str, int]


@dataclass(frozen=True)
class Change:
    """One finding that is not what it was.

    Attributes
    ----------
    kind : str
        ``regressed``: no longer a pass, or a fail where it was unknown or skipped; ``missing``: it passed, and is not
        in the other run; ``skipped``: it passed; ``worse`` and ``better``: both pass, and the figure is `FACTOR` times
        nearer to its limit or further from it; ``fixed``: now a pass; ``new``: it is in the second run alone.
    notebook : str
    before, after : Finding or None
        None where there is none.
    """

    kind: Kind
    notebook: str
    before: Finding | None
    after: Finding | None

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        one = self.after or self.before
        assert one is not None
        where = {"backend": one.backend or "", "tap": one.tap or ""}
        sides = {"before": _described(self.before), "after": _described(self.after)}
        return {"change": self.kind, "notebook": self.notebook, "statement": one.statement, **where, **sides}


@dataclass(frozen=True)
class Difference:
    """What changed between two runs.

    Attributes
    ----------
    changes : tuple of Change
        Regressions first.
    settings : tuple of (str, str, str)
        What they were run with, where it differs: name (notebook, then weights, commit, parameter or package), before,
        after.
    same : int
        Findings with the same verdict and, but for `FACTOR`, the same figure.
    """

    changes: tuple[Change, ...]
    settings: tuple[tuple[str, str, str], ...]
    same: int

    @property
    def regressed(self) -> bool:
        """Whether anything that passed no longer does."""
        return any(change.kind in BAD for change in self.changes)

    def count(self) -> dict[str, int]:
        """Return how many changes there are of each kind."""
        found = Counter(change.kind for change in self.changes)
        return {kind: found[kind] for kind in get_args(Kind)} | {"same": self.same}

    def __str__(self) -> str:
        lines = []
        for row in (change.as_dict() for change in self.changes):
            where = ", ".join(filter(None, (row["notebook"], row["backend"], row["tap"])))
            lines += [f"{row['change']}: {row['statement']} ({where})", f"    {row['before']} -> {row['after']}"]
        lines += [f"{name}: {old} -> {new}" for name, old, new in self.settings]
        return "\n".join([*lines, ", ".join(f"{number} {kind}" for kind, number in self.count().items())])


def compare_runs(before: str | Path, after: str | Path) -> Difference:
    """Compare the findings of two folders of runs, ``outputs/run`` or a copy of it.

    Parameters
    ----------
    before, after : path
        Each holds a folder with ``findings.json`` for each notebook, or is one. A notebook that is in one run alone
        is compared with nothing: its findings are ``missing`` or ``new``.

    Raises
    ------
    InputError
        If a folder holds no findings, or a file in it is damaged.
    """
    first, second = _read(before), _read(after)
    old, new = _keyed(first), _keyed(second)
    kinds = {key: _kind(old.get(key), new.get(key)) for key in (*old, *new)}
    changes = [Change(kind, key[0], old.get(key), new.get(key)) for key, kind in kinds.items() if kind]
    changes.sort(key=lambda change: get_args(Kind).index(change.kind))
    return Difference(tuple(changes), tuple(_settings(first, second)), len(kinds) - len(changes))


Read = Mapping[str, tuple[Sequence[Finding], Mapping[str, Any]]]


def _read(root: str | Path) -> Read:
    root = Path(root)
    paths = sorted({*root.glob("findings.json"), *root.glob("*/findings.json")})
    if not paths:
        raise InputError(f"{root} holds no findings; give a folder of runs, such as outputs/run.")
    return {str(about.get("notebook", "")): (findings, about) for findings, about in map(read_findings, paths)}


def _keyed(read: Read) -> dict[Key, Finding]:
    """Return each finding by what it is about; those of which that is the same are counted in order."""
    found: dict[Key, Finding] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for notebook, (findings, _) in read.items():
        for one in findings:
            about = (notebook, one.kind, one.backend or "", one.tap or "", one.statement)
            found[(*about, seen[about])] = one
            seen[about] += 1
    return found


def _kind(before: Finding | None, after: Finding | None) -> Kind | None:
    if before is None:
        return "new"
    if after is None:
        return "missing" if before.verdict == "pass" else None
    if before.verdict != after.verdict:
        if before.verdict == "pass" and after.verdict == "skip":
            return "skipped"
        return "regressed" if _RANK[after.verdict] > _RANK[before.verdict] else "fixed"
    if None in (before.value, after.value) or before.relation not in ("<=", "<", ">=", ">"):
        return None
    figures = (before.value, after.value) if before.relation in ("<=", "<") else (after.value, before.value)
    small, large = (abs(figure or 0.0) for figure in figures)
    return "worse" if large > FACTOR * small else "better" if small > FACTOR * large else None


def _settings(before: Read, after: Read) -> Iterator[tuple[str, str, str]]:
    for notebook in before.keys() & after.keys():
        old, new = before[notebook][1], after[notebook][1]
        for name in _ABOUT:
            one, other = old.get(name), new.get(name)
            if isinstance(one, dict) and isinstance(other, dict):
                for key in sorted(one.keys() | other.keys()):
                    if one.get(key) != other.get(key):
                        yield f"{notebook}: {key}", str(one.get(key)), str(other.get(key))
            elif one != other:
                yield f"{notebook}: {name}", str(one), str(other)


def _described(finding: Finding | None) -> str:
    if finding is None:
        return "none"
    figure = "" if finding.value is None else f" {finding.value:.3g} {finding.unit}".rstrip()
    return f"{finding.verdict}{figure}{f' ({finding.reason})' if finding.reason else ''}"
