"""What changed between two runs of the notebooks, or between two records of one program or file.

Of runs: what got worse first, and beside it what they were run with. A record is what ``kokoro-nb diagnose`` and
``inspect`` write with ``--json``, with other versions or on other machines: see `kokoro_nb.traces.record`. No runtime
and no PyTorch is needed to compare two.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.markup import listed, number
from kokoro_nb.traces.record import read_record, sketches_apart

Kind = Literal["regressed", "missing", "skipped", "undecided", "worse", "fixed", "better", "new"]
BAD: tuple[Kind, ...] = ("regressed", "missing", "skipped")
FACTOR = 2.0  # a figure that moves less is neither better nor worse: times and last bits move by themselves
_ABOUT = ("weights", "commit", "parameters", "versions")
Key = tuple[str, str, str, str, str, int]


@dataclass(frozen=True)
class Change:
    """One finding that is not what it was.

    Attributes
    ----------
    kind : str
        ``regressed``: no longer a pass, or a fail where it was unknown or skipped; ``missing``: it passed, and is not
        in the other run; ``skipped``: it passed; ``undecided``: it did not pass, and is now unknown or skipped, which
        mends nothing; ``worse`` and ``better``: both pass, and the figure is `FACTOR` times nearer to its limit or
        further from it; ``fixed``: now a pass; ``new``: it is in the second run alone.
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
        if after.verdict == "pass":
            return "fixed"
        if before.verdict == "pass" and after.verdict == "skip":
            return "skipped"
        return "regressed" if before.verdict == "pass" or after.verdict == "fail" else "undecided"
    if None in (before.value, after.value) or before.relation not in ("<=", "<", ">=", ">"):
        return None
    figures = (before.value, after.value) if before.relation in ("<=", "<") else (after.value, before.value)
    small, large = (abs(figure or 0.0) for figure in figures)
    return "worse" if large > FACTOR * small else "better" if small > FACTOR * large else None


def _settings(before: Read, after: Read) -> Iterator[tuple[str, str, str]]:
    for notebook in sorted(before.keys() & after.keys()):
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


RecordKind = Literal["outcome", "history", "output", "judgement", "captured", "absent", "result", "name"]
QUIET = ("captured", "absent", "result", "name")  # by themselves no fault of either
HALF = 2.0**-12  # of the peak, or of the rms: half the bits of float32; what moves by less is rounded elsewhere
SHOWN = 5  # changes of a kind that are printed
WRITERS = ("onnx", "onnxscript", "torch")  # of a file of ONNX: where they fail, ONNX Runtime is not asked
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RecordChange:
    """One thing that is not what it was.

    Attributes
    ----------
    kind : str
        ``outcome``: of the whole; ``history``: whether it depends on earlier calls; ``output``; ``judgement``: an
        operator that is wrong in one record alone; ``captured``: one that could be judged in one alone; ``absent``: an
        operator or an output that is in one alone; ``result``: an operator that is judged alike and gives something
        else; ``name``: one that is called otherwise.
    name, before, after : str
        What it is about, and how it was in either record.
    wrong : str
        ``before`` or ``after``: in which record alone it is wrong; empty where in both or in none.
    """

    kind: RecordKind
    name: str
    before: str
    after: str
    wrong: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return asdict(self)


@dataclass(frozen=True)
class RecordDifference:
    """What changed between two records.

    Attributes
    ----------
    settings : tuple of (str, str, str)
        Runtime, platform and versions, where they differ: name, before, after; those of the runtime first.
    changes : tuple of RecordChange
        The whole first, then outputs, then operators in the order of execution.
    same : int
        Operators and outputs that are as they were.
    blame : str
        What is to blame for what is wrong in one record alone, in a sentence.
    """

    settings: tuple[tuple[str, str, str], ...]
    changes: tuple[RecordChange, ...]
    same: int
    blame: str

    @property
    def regressed(self) -> bool:
        """Whether the outcome, an output or a judgement differs; another name or rounding alone is no matter."""
        return any(one.kind not in QUIET for one in self.changes)

    def count(self) -> dict[str, int]:
        """Return how many changes there are of each kind."""
        found = Counter(one.kind for one in self.changes)
        return {kind: found[kind] for kind in get_args(RecordKind)} | {"same": self.same}

    def __str__(self) -> str:
        lines = [f"{name}: {before} -> {after}" for name, before, after in self.settings]
        for kind, total in self.count().items():
            shown = [one for one in self.changes if one.kind == kind][:SHOWN]
            lines += [f"{kind}: {one.name}: {one.before} -> {one.after}" for one in shown]
            lines += [f"{kind}: {total - SHOWN} more"] if shown and total > SHOWN else []
        return "\n".join([*lines, self.blame])


def compare_records(before: str | Path, after: str | Path) -> RecordDifference:
    """Compare two files of ``--json``.

    Parameters
    ----------
    before, after : path
        Of one program, with the same parameters, or of one file; on the same inputs.

    Raises
    ------
    InputError
        If a file is damaged or of another schema, or the two are of different models or inputs.
    """
    one, other = read_record(before), read_record(after)
    mine, theirs = one["subject"], other["subject"]
    if mine["model"] != theirs["model"] and mine["model"] and theirs["model"]:
        labels = f"{mine['label']} ({mine['model'][:12]}) and {theirs['label']} ({theirs['model'][:12]})"
        raise InputError(f"The records are of different models, {labels}; make both of one.")
    given = {row["name"]: row for row in other["inputs"]}
    for row in one["inputs"] if given else ():
        if row["name"] not in given or not sketches_apart(row, given[row["name"]]) <= HALF:
            raise InputError(f"The records are of different inputs, '{row['name']}' for one; make both on the same.")
    found, count = [*_whole(one, other)], 0
    for rows, key, change in (("outputs", "dtype", _output), ("operators", "op", _operator)):
        for pair in _paired(one[rows], other[rows], key):
            count += 1
            if None in pair:
                name = next(row["name"] for row in pair if row)
                found.append(_change("absent", name, ["there" if row else "absent" for row in pair]))
            elif (changed := change(*pair)) is not None:
                found.append(changed)
    same = count - sum(each.kind not in ("outcome", "history") for each in found)
    found.sort(key=lambda each: get_args(RecordKind).index(each.kind))
    settings = tuple(_record_settings(one, other))
    return RecordDifference(settings, tuple(found), same, _blame(one, other, settings, found))


def _rank(name: str, one: Row, other: Row) -> int:
    """Return how near a package is to what ran: the runtime itself, its tools, PyTorch, which exports, all others."""
    own = {*one["runtime"]["packages"], *other["runtime"]["packages"]}
    kinds = [each["runtime"]["name"].split("-")[0] for each in (one, other)]  # executorch-portable: executorch
    if "onnxruntime" in kinds and any("failed when lowered" in each["failure"] for each in (one, other)):
        return 0 if name in WRITERS else 3
    if name == "runtime" or (name in own and any(kind in name for kind in kinds)):
        return 0
    return 1 if name in own else 2 if name == "torch" else 3


def _record_settings(*both: Row) -> Iterator[tuple[str, str, str]]:
    """Yield what differs: name, before, after; of packages that do not run it, those that both have."""
    sides = [{**each["versions"], "runtime": each["runtime"]["name"], "platform": each["platform"]} for each in both]
    for rank, name in sorted((_rank(name, *both), name) for name in {**sides[0], **sides[1]}):
        before, after = (side.get(name, "absent") for side in sides)
        if before != after and (rank < 2 or "absent" not in (before, after)):
            yield name, before, after


def _paired(one: Sequence[Row], other: Sequence[Row], key: str) -> list[Any]:
    """Pair rows by name, and what is left in its order by `key`."""
    names = {row["name"]: row for row in other}
    pairs: list[Any] = [[row, names.pop(row["name"], None)] for row in one]
    lost, left = [pair for pair in pairs if pair[1] is None], [*names.values()]
    keys: list[Any] = [[row[key] for row in rows] for rows in ([pair[0] for pair in lost], left)]
    for mine, theirs, size in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_matching_blocks():
        for place in range(size):
            lost[mine + place][1] = left[theirs + place]
            names.pop(left[theirs + place]["name"])
    return [*pairs, *([None, row] for row in names.values())]


def _change(kind: RecordKind, name: str, words: Iterable[str], wrong: Sequence[bool] = (False, False)) -> RecordChange:
    before, after = words
    return RecordChange(kind, name, before, after, "" if wrong[0] == wrong[1] else "before" if wrong[0] else "after")


def _whole(*both: Row) -> Iterator[RecordChange]:
    words = [f"{each['verdict']}: {each['failure'] or each['statement']}" for each in both]
    if both[0]["verdict"] != both[1]["verdict"] or both[0]["failure"] != both[1]["failure"]:
        yield _change("outcome", both[1]["subject"]["label"], words, [each["verdict"] == "fail" for each in both])
    moved = [{name: change for name, change in each["history"].items() if change != 0} for each in both]
    if all(each["history"] for each in both) and bool(moved[0]) != bool(moved[1]):
        words = [listed(f"{number(size)} after {name}" for name, size in each.items()) or "the same" for each in moved]
        yield _change("history", "a later call on the same inputs", words, [*map(bool, moved)])


def _output(*both: Row) -> RecordChange | None:
    allowed = np.max([HALF, *(limit for row in both if np.isfinite(limit := row["limit (of peak)"] or 0.0))])
    if both[0]["verdict"] == both[1]["verdict"] and sketches_apart(*both) <= allowed:
        return None
    words = [f"{row['verdict']}, {100 * row['finite']:.4g} % finite" for row in both]
    errors = [row["error (of peak)"] for row in both]
    words = [w if e is None else f"{w}, error {number(e)} of the peak" for w, e in zip(words, errors, strict=True)]
    return _change("output", both[1]["name"], words, [row["verdict"] == "fail" or row["finite"] < 1 for row in both])


def _operator(*both: Row) -> RecordChange | None:
    one, other = both
    name, wrong = f"{other['name']} ({other['op']})", [row["verdict"] == "fail" for row in both]
    if one["verdict"] != other["verdict"]:
        ratios = [row["error / rounding"] for row in both]
        times = ["" if one is None else f", {number(one)} times the rounding-error bound" for one in ratios]
        kind: RecordKind = "judgement" if any(wrong) else "captured"
        return _change(kind, name, [row["verdict"] + more for row, more in zip(both, times, strict=True)], wrong)
    if None not in (one["rms"], other["rms"]):
        level = np.maximum(one["rms"], other["rms"])
        if one["finite"] != other["finite"] or abs(one["rms"] - other["rms"]) > HALF * level:
            words = (f"rms {number(row['rms'])}, {100 * row['finite']:.4g} % finite" for row in both)
            return _change("result", name, words)
    return _change("name", name, [row["name"] for row in both]) if one["name"] != other["name"] else None


def _blame(one: Row, other: Row, settings: Sequence[tuple[str, str, str]], changes: Sequence[RecordChange]) -> str:
    """Return what is to blame in a sentence: of what differs that which is nearest to what ran."""
    sides = list(dict.fromkeys(change.wrong for change in changes if change.wrong))
    if not sides:
        both = f" In both: {other['statement']}" if one["verdict"] == other["verdict"] == "fail" else ""
        return f"Nothing is wrong in one alone.{both}"
    ranks = [_rank(name, one, other) for name, *_ in settings]
    suspects = [row for rank, row in zip(ranks, settings, strict=True) if rank == ranks[0]]
    words = []
    for side in sides:
        record, here, there = (one, 1, 2) if side == "before" else (other, 2, 1)
        named = listed(row["tap"] for row in record["findings"] if row["tap"])
        blamed = listed(f"{row[0]} {row[here]} (not {row[there]})" for row in suspects)
        blamed = blamed or "unknown; the versions and the platform are the same"
        words.append(f"Wrong {side} alone{f' ({named})' if named else ''}. Blame: {blamed}.")
    rest = listed(name for name, *_ in settings[len(suspects) :])
    return " ".join([*words, *([f"Also different: {rest}."] if rest else [])])
