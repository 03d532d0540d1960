"""Measure scripts in the interpreter that runs this file, whatever is installed beside it: it imports nothing of ours.

    python -I other_environment.py SCRIPT...

For each script, when both of its forms have run, a line is printed: `MARK` and JSON. So a defect that ends the process
is the first whose line is missing. Without a script it prints what is installed.
"""

import importlib.metadata
import json
import platform
import runpy
import sys

MARK = "kokoro-nb defect: "


def _say(**values: object) -> None:
    print("\n" + MARK + json.dumps(values), flush=True)  # a tool may have left a line unfinished


def _measure(script: str) -> bool:
    try:
        known = runpy.run_path(script)
    except ImportError as error:
        _say(missing=error.name)
        return False
    forms = {}
    for name, mended in (("broken", False), ("mended", True)):
        try:
            forms[name] = vars(known["measure"](known["case"], known["run"], mended))
        except BaseException as error:
            forms[name] = {"raised": type(error).__name__ + ": " + " ".join(str(error).split())[:300]}
    _say(script=script, **forms)
    return True


if __name__ == "__main__":
    if sys.argv[1:]:
        all(map(_measure, sys.argv[1:]))
    else:
        every = reversed(list(importlib.metadata.distributions()))  # the first on the path is what is imported
        found = {one.metadata["Name"]: one.version for one in every}
        _say(python=platform.python_version(), system=platform.platform(), packages=found)
