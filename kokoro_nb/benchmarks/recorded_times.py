"""Where the time of notebooks and tests went when they were last run on this machine, from what the runs recorded."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_json

TESTS = "test_seconds.json"


def notebook_times(folder: str | Path) -> list[dict[str, Any]]:
    """Return a row for each notebook that was run in `folder`, the longest first: seconds in all and by kind of work.

    Parameters
    ----------
    folder : path
        Of the runs, ``outputs/run``; see `reporting.runs.RunRecord.profile` for the kinds.

    Raises
    ------
    InputError
        If no run there has a profile.
    """
    runs = [read_json(path, "record of a run") for path in sorted(Path(folder).glob("*/run.json"))]
    rows = [_row("notebook", run["notebook"], run["seconds"], run["profile"]) for run in runs if run.get("profile")]
    if not rows:
        raise InputError(f"No notebook has been run in {folder}; run them first: make report.")
    return sorted(rows, key=lambda row: -row["seconds"])


def test_times(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each test file, the longest first, as the last ``make test`` wrote them to `path`.

    Raises
    ------
    InputError
        If there is no such file.
    """
    files = read_json(path, "record of the tests' times; run them first: make test")
    for name, spent in sorted(files.items(), key=lambda item: -item[1]["seconds"]):
        yield _row("file", name, spent["seconds"], spent["profile"])


def _row(of: str, name: str, seconds: float, profile: Mapping[str, float]) -> dict[str, Any]:
    return {of: name, "seconds": seconds, **{f"{kind} (s)": spent for kind, spent in profile.items()}}
