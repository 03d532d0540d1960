"""A request to a module of this package in a Python process of its own, as files in a folder, and its answer."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kokoro_nb.run_apart import SAFELY, run_apart

REQUEST, ANSWER = "request.json", "answer.json"


def ask(module: str, folder: Path, request: Mapping[str, Any], did: str) -> Any:
    """Run `module` of this package in a new Python process on a request in `folder`; return its answer.

    Raises
    ------
    RuntimeError
        If the process, which `did` something, fails; with what it printed.
    """
    (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
    # the same copy of this package, whether it is installed or not
    found = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run_apart([*SAFELY, "-m", module, folder], environment={**os.environ, "PYTHONPATH": found})
    if done.status != 0:
        raise RuntimeError(f"The process that {did} ended with {done.status}: {done.stderr.strip()}")
    return json.loads((folder / ANSWER).read_text(encoding="utf-8"))


def read_request(folder: Path) -> Any:
    """Read the request in `folder`: for the process that answers it."""
    return json.loads((folder / REQUEST).read_text(encoding="utf-8"))
