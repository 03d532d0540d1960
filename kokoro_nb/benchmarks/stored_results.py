"""Results on disk, in a folder for each machine, and one held against another: ratios of ratios."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kokoro_nb.benchmarks.machine import this_machine
from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready, read_json, write_json

SCHEMA = 1
KIND = "kokoro_nb benchmark"
_NEEDED = {"kind", "schema", "date", "weights", "parameters", "machine", "versions", "commit"}
_SECTIONS = ("decoders", "speaking")


def record(
    weights: str, parameters: Mapping[str, Any], versions: Mapping[str, str], commit: str | None, **sections: Any
) -> dict[str, Any]:
    """Return a result with what it was measured on.

    Parameters
    ----------
    weights : str
        Their label.
    parameters : mapping
        What was asked for.
    versions : mapping
        Package -> version.
    commit : str or None
        Of this package.
    sections : dict, list
        What was measured, by name.
    """
    about = {"kind": KIND, "schema": SCHEMA, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    about |= {"weights": weights, "parameters": dict(parameters), "machine": this_machine().as_dict()}
    return json_ready({**about, "versions": dict(versions), "commit": commit, **sections})


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
        raise InputError(f"{path} is a benchmark of another form than schema {SCHEMA}; measure again.")
    try:
        dict(_ratios(result))
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}: {error}); measure again.") from error
    return result


def against(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each program in both results how its ratio to eager has changed.

    A ratio of ratios hardly depends on how busy either machine was. It has changed where the bounds of both ratios do
    not meet; where one was measured in a single round, nobody can tell.
    """
    before, rows = dict(_ratios(then)), []
    for key, ratio in _ratios(now):
        old = before.get(key)
        if old is None:
            continue
        what, length, program = key
        bounds = [float(side[end]) for side in (ratio, old) for end in ("low", "high")]
        low, high, old_low, old_high = bounds
        verdict = "slower" if low > old_high else "faster" if high < old_low else "same"
        row = {"what": what, "length (s)": length, "program": program, "then (x eager)": float(old["median"])}
        row |= {"now (x eager)": float(ratio["median"]), "now / then": float(ratio["median"]) / float(old["median"])}
        rows.append({**row, "told": "unknown" if any(map(math.isnan, bounds)) else verdict})
    return rows


def differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each thing that is not the same in both results: weights, machine, versions, commit."""
    found = []
    for name in ("weights", "commit"):
        if now[name] != then[name]:
            found.append(f"{name}: {then[name]} then, {now[name]} now")
    for name in ("machine", "versions"):
        for key in sorted(now[name].keys() | then[name].keys()):
            old, new = then[name].get(key), now[name].get(key)
            if old != new and key != "fingerprint":
                found.append(f"{name}, {key}: {old} then, {new} now")
    return found


def _ratios(result: Mapping[str, Any]) -> Iterator[tuple[tuple[str, float, str], Mapping[str, float]]]:
    """Yield what was measured, at which length, of which program, and its ratio to eager."""
    for section in _SECTIONS:
        for part in result.get(section, []):
            for row in part["rows"]:
                yield (section, row.get("room", row["length"]), row["program"]), row["ratio"]
