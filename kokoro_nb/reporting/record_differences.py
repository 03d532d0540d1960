"""What changed between two records of one program or file, made with other versions or on other machines.

A record is what ``kokoro-nb diagnose`` and ``inspect`` write with ``--json``: see `kokoro_nb.traces.record`. No runtime
and no PyTorch is needed to compare two.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment, listed, number, table
from kokoro_nb.traces.record import read_record, sketches_apart

Kind = Literal["outcome", "output", "history", "judgement", "captured", "operator", "result", "name"]
QUIET = ("captured", "operator", "result", "name")  # by themselves no fault of either
HALF = 2.0**-12  # of the peak, or of the rms: half the bits of float32; what moves by less is rounded elsewhere
SHOWN = 5  # changes of a kind that are printed
Row = Mapping[str, Any]
Pair = tuple[Row | None, Row | None]


@dataclass(frozen=True)
class RecordChange:
    """One thing that is not what it was.

    Attributes
    ----------
    kind : str
        ``outcome``: of the whole; ``output``; ``history``: whether it depends on earlier calls; ``judgement``: an
        operator that is wrong in one record alone; ``captured``: one that could be judged in one alone; ``operator``:
        one that is in one alone; ``result``: one that is judged alike and gives something else; ``name``: one that is
        called otherwise.
    name, before, after : str
        What it is about, and how it was in either record.
    wrong : str
        ``before`` or ``after``: in which record alone it is wrong; empty where in both or in none.
    """

    kind: Kind
    name: str
    before: str
    after: str
    wrong: str = ""


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
        return {kind: found[kind] for kind in get_args(Kind)} | {"same": self.same}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each change."""
        return [asdict(one) for one in self.changes]

    def __str__(self) -> str:
        lines = [f"{name}: {before} -> {after}" for name, before, after in self.settings]
        for kind, total in self.count().items():
            shown = [one for one in self.changes if one.kind == kind][:SHOWN]
            lines += [f"{kind}: {one.name}: {one.before} -> {one.after}" for one in shown]
            lines += [f"{kind}: {total - SHOWN} more"] if shown and total > SHOWN else []
        return "\n".join([*lines, self.blame])

    def _repr_html_(self) -> str:
        heads = [dict(zip(("version", "before", "after"), one, strict=True)) for one in self.settings]
        parts: list[Fragment] = [table(heads, "What differs"), table(self.rows(), self.blame)]
        return "".join(part._repr_html_() for part in parts)


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
    settings = tuple(_settings(one, other))
    pairs, ends = (
        _paired(one["operators"], other["operators"], "op"),
        _paired(one["outputs"], other["outputs"], "dtype"),
    )
    changes = [*_whole(one, other), *map(_output, ends), *map(_operator, pairs)]
    found = [change for change in changes if change is not None]
    found.sort(key=lambda change: get_args(Kind).index(change.kind))
    same = len(pairs) + len(ends) - sum(change.kind not in ("outcome", "history") for change in found)
    return RecordDifference(settings, tuple(found), same, _blame(one, other, settings, found))


def _settings(one: Row, other: Row) -> Iterator[tuple[str, str, str]]:
    """Yield what differs: runtime, its own packages, PyTorch, other packages that both have, platform."""
    own = {*one["runtime"]["packages"], *other["runtime"]["packages"], "runtime"}
    versions = sorted({*one["versions"], *other["versions"]} - own - {"torch"})
    for name in ("runtime", *sorted(own - {"runtime", "torch"}), "torch", *versions, "platform"):
        before, after = (
            {**each["versions"], "runtime": each["runtime"]["name"], "platform": each["platform"]}.get(name, "absent")
            for each in (one, other)
        )
        if before != after and (name in own or "absent" not in (before, after)):
            yield name, before, after


def _paired(one: Sequence[Row], other: Sequence[Row], key: str) -> list[Pair]:
    """Pair rows by name; those that are left in their order, where each has as many of the same `key`."""
    names = {row["name"]: row for row in other}
    pairs: list[Pair] = [(row, names.pop(row["name"], None)) for row in one]
    counts = [Counter(row[key] for row in rows) for rows in ([a for a, b in pairs if a and b is None], names.values())]
    for place, (row, match) in enumerate(pairs):
        if row is not None and match is None and counts[0][row[key]] == counts[1][row[key]]:
            name = next(name for name, left in names.items() if left[key] == row[key])
            pairs[place] = (row, names.pop(name))
            for count in counts:
                count[row[key]] -= 1
    return [*pairs, *((None, row) for row in names.values())]


def _side(before: bool, after: bool) -> str:
    """Return where alone something is wrong."""
    return "" if before == after else "before" if before else "after"


def _whole(one: Row, other: Row) -> Iterator[RecordChange]:
    if one["verdict"] != other["verdict"] or one["failure"] != other["failure"]:
        before, after = (f"{each['verdict']}: {each['failure'] or each['statement']}" for each in (one, other))
        wrong = _side(one["verdict"] == "fail", other["verdict"] == "fail")
        yield RecordChange("outcome", other["subject"]["label"], before, after, wrong)
    moved = [{name: change for name, change in each["history"].items() if change != 0} for each in (one, other)]
    if one["history"] and other["history"] and bool(moved[0]) != bool(moved[1]):
        before, after = (listed(f"{number(size)} after {name}" for name, size in each.items()) for each in moved)
        words = ("a later call on the same inputs", before or "the same", after or "the same")
        yield RecordChange("history", *words, _side(bool(moved[0]), bool(moved[1])))


def _output(pair: Pair) -> RecordChange | None:
    one, other = pair
    if one is None or other is None:
        return _alone("output", pair)
    limits = [row["limit (of peak)"] for row in (one, other) if row["limit (of peak)"] is not None]
    apart = sketches_apart(one, other) if one["sha256"] and other["sha256"] else 0.0
    if one["verdict"] == other["verdict"] and apart <= float(np.nanmax([HALF, *limits])):
        return None
    unsound = [row["verdict"] == "fail" or (row["finite"] is not None and row["finite"] < 1) for row in (one, other)]
    return RecordChange("output", other["name"], _figures(one), _figures(other), _side(*unsound))


def _figures(row: Row) -> str:
    share = "" if row["finite"] is None else f", {100 * row['finite']:.4g} % finite"
    error = "" if row["error (of peak)"] is None else f", error {number(row['error (of peak)'])} of the peak"
    return f"{row['verdict']}{share}{error}"


def _operator(pair: Pair) -> RecordChange | None:
    one, other = pair
    if one is None or other is None:
        return _alone("operator", pair)
    name = f"{other['name']} ({other['op']})"
    if one["verdict"] != other["verdict"]:
        wrong = _side(one["verdict"] == "fail", other["verdict"] == "fail")
        return RecordChange("judgement" if wrong else "captured", name, _judged(one), _judged(other), wrong)
    if None not in (one["rms"], other["rms"]):
        level, apart = np.maximum(one["rms"], other["rms"]), abs(one["rms"] - other["rms"])
        if one["finite"] != other["finite"] or apart > HALF * level:
            before, after = (f"rms {number(row['rms'])}, {100 * row['finite']:.4g} % finite" for row in (one, other))
            return RecordChange("result", name, before, after)
    return RecordChange("name", name, one["name"], other["name"]) if one["name"] != other["name"] else None


def _judged(row: Row) -> str:
    ratio = row["error / rounding"]
    return row["verdict"] if ratio is None else f"{row['verdict']}, {number(ratio)} times what rounding explains"


def _alone(kind: Kind, pair: Pair) -> RecordChange:
    name = next(str(row["name"]) for row in pair if row is not None)
    before, after = ("there" if row else "absent" for row in pair)
    return RecordChange(kind, name, before, after)


def _blame(one: Row, other: Row, settings: Sequence[tuple[str, str, str]], changes: Sequence[RecordChange]) -> str:
    """Return what is to blame: of what differs the runtime, else its tools, else PyTorch, which exports, else all."""
    sides = list(dict.fromkeys(change.wrong for change in changes if change.wrong))
    if not sides:
        both = f" In both: {other['statement']}" if one["verdict"] == other["verdict"] == "fail" else ""
        return f"Nothing is wrong in one alone.{both}"
    own = {*one["runtime"]["packages"], *other["runtime"]["packages"]}
    kinds = {each["runtime"]["name"].split("-")[0] for each in (one, other)}  # executorch-portable: executorch
    ranks = ({name for name in own if any(kind in name for kind in kinds)} | {"runtime"}, own, {"torch"})
    chosen = (tuple(row for row in settings if row[0] in names) for names in ranks)
    suspects = next(filter(None, chosen), tuple(settings))
    rest = listed(row[0] for row in settings if row not in suspects)
    words = []
    for side in sides:
        here, there = (1, 2) if side == "before" else (2, 1)
        named = [row["operator"] for row in (one if side == "before" else other)["findings"] if row["operator"]]
        blamed = listed(f"{row[0]} {row[here]} (not {row[there]})" for row in suspects)
        blamed = blamed or "unknown; the versions and the platform are the same"
        words.append(f"Wrong {side} alone{f' ({listed(named)})' if named else ''}. Blame: {blamed}")
    return f"{'. '.join(words)}{f'; {rest} differ as well' if rest else ''}."
