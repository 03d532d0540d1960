"""Measure bundles in the interpreter that runs this file, whatever is installed beside it: it imports nothing of ours.

    python -I other_environment.py BUNDLE...

For each bundle, when both of its forms have run, a line is printed: `MARK` and JSON. So a defect that ends the process
is the first whose line is missing. Without a bundle it prints what is installed.
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
        forms = {}
        for name, mended in (("broken", False), ("mended", True)):
            try:
                forms[name] = vars(repro.measure_folder(Path(folder), mended))
            except BaseException as error:
                forms[name] = {"raised": type(error).__name__ + ": " + " ".join(str(error).split())[:300]}
        _say(folder=folder, **forms)


if __name__ == "__main__":
    if sys.argv[1:]:
        _measure(sys.argv[1:])
    else:
        every = reversed(list(importlib.metadata.distributions()))  # the first on the path is what is imported
        found = {one.metadata["Name"]: one.version for one in every}
        _say(python=platform.python_version(), system=platform.platform(), packages=found)
