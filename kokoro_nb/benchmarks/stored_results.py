"""Results on disk, in a folder for each machine, and the comparison of two: ratios of ratios."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kokoro_nb.benchmarks.interleaved import RATIO
from kokoro_nb.benchmarks.machine import this_machine
from kokoro_nb.benchmarks.suite import BenchmarkTable
from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready, read_json, write_json

SCHEMA = 2
KIND = "kokoro_nb benchmark"
_NEEDED = {"kind", "schema", "date", "weights", "parameters", "machine", "versions", "commit", "suites"}


def record(
    weights: str,
    parameters: Mapping[str, Any],
    versions: Mapping[str, str],
    commit: str | None,
    suites: Mapping[str, Sequence[BenchmarkTable]],
) -> dict[str, Any]:
    """Return a result with what it was measured on.

    Parameters
    ----------
    weights : str
        Their label.
    parameters : mapping
        Of the command.
    versions : mapping
        Package -> version.
    commit : str or None
        Of this package.
    suites : mapping
        Suite -> its tables, see `suite.run`.
    """
    about = {"kind": KIND, "schema": SCHEMA, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    about |= {"weights": weights, "parameters": dict(parameters), "machine": this_machine().as_dict()}
    tables = {name: [table.as_dict() for table in each] for name, each in suites.items()}
    return json_ready({**about, "versions": dict(versions), "commit": commit, "suites": tables})


def save(result: Mapping[str, Any], folder: str | Path) -> Path:
    """Write a result into the machine's own folder in `folder`; return the file, named after the date."""
    name = str(result["date"]).replace(":", "").replace("+0000", "Z")
    place, number = Path(folder) / result["machine"]["fingerprint"], 1
    path = place / f"{name}.json"
    while path.exists():
        number += 1
        path = place / f"{name}-{number}.json"
    return write_json(path, dict(result))


def load(path: str | Path) -> dict[str, Any]:
    """Read a result.

    Raises
    ------
    InputError
        If there is none, it is cut off, is something else, or of another schema.
    """
    result = read_json(path, "benchmark")
    if not isinstance(result, dict) or result.get("kind") != KIND:
        raise InputError(f"{path} holds no benchmark; give a file that 'kokoro-nb bench' wrote.")
    if result.get("schema") != SCHEMA or not result.keys() >= _NEEDED:
        raise InputError(f"{path} was written by another version of 'kokoro-nb bench'; measure again with this one.")
    try:
        dict(_ratios(result))
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}: {error}); measure again.") from error
    return result


def against(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each program in both results how its ratio to its base has changed.

    A ratio of ratios hardly depends on how busy either machine was. It has changed where the bounds of both ratios do
    not meet; where one was measured in a single round, that is unknown.
    """
    before, rows = dict(_ratios(reference)), []
    for key, (column, now, *bounds) in _ratios(candidate):
        if key not in before:
            continue
        _, old, old_low, old_high = before[key]
        low, high = bounds
        change = "slower" if low > old_high else "faster" if high < old_low else "same"
        if any(map(math.isnan, (low, high, old_low, old_high))):
            change = "unknown"
        row = {"table": key[0], "program": key[1], "ratio": column, "reference": old, "candidate": now}
        rows.append({**row, "candidate / reference": now / old, "change": change})
    return rows


def differences(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each thing that is not the same in both results: weights, machine, versions, commit."""
    found = []
    for name in ("weights", "commit"):
        if reference[name] != candidate[name]:
            found.append(f"{name}: {reference[name]} in the reference, {candidate[name]} in the candidate")
    for name in ("machine", "versions"):
        for key in sorted(reference[name].keys() | candidate[name].keys()):
            old, new = reference[name].get(key), candidate[name].get(key)
            if old != new and key != "fingerprint":
                found.append(f"{name}, {key}: {old} in the reference, {new} in the candidate")
    return found


def _ratios(result: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], tuple[str, float, float, float]]]:
    """Yield caption and program of each row that has a ratio with bounds: its column, the ratio and the bounds."""
    for table in (table for tables in result["suites"].values() for table in tables):
        for row in table["rows"]:
            column = next((name for name in row if name.startswith(RATIO)), None)
            if column and "from" in row:
                figures = (float(row[name]) for name in (column, "from", "to"))
                yield (table["caption"], row["program"]), (column, *figures)
