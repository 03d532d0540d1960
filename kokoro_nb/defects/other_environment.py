"""Measure bundles in the interpreter that runs this file, whatever is installed beside it: it imports nothing of ours.

    python -I other_environment.py BUNDLE...

For each form of each bundle a line is printed before it runs and one behind it: `MARK` and JSON. So a defect that ends
the process is known by the line that is missing. Without a bundle it prints what is installed.
"""

import importlib
import importlib.metadata
import json
import platform
import sys
from pathlib import Path

MARK = "kokoro-nb defect: "


def _say(**values: object) -> None:
    print("\n" + MARK + json.dumps(values), flush=True)  # a tool may have left a line unfinished


def _measure(folders: list) -> None:
    sys.path.insert(0, folders[0])
    try:
        repro = importlib.import_module("repro")
    except ImportError as error:
        _say(missing=error.name)
        return
    for folder in folders:
        for mended in (False, True):
            _say(begins=folder, mended=mended)
            try:
                figure = repro.measure_folder(Path(folder), mended)
                seen = {"wrong": figure.wrong, "error": figure.error, "seen": figure.seen, "expected": figure.expected}
            except BaseException as error:
                seen = {"raised": type(error).__name__ + ": " + " ".join(str(error).split())[:300]}
            _say(folder=folder, mended=mended, **seen)


if __name__ == "__main__":
    if sys.argv[1:]:
        _measure(sys.argv[1:])
    else:
        found: dict = {}
        for one in importlib.metadata.distributions():
            found.setdefault(one.metadata["Name"], one.version)  # the first on the path is what is imported
        _say(python=platform.python_version(), system=platform.platform(), packages=found)
