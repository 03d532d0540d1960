"""A request to a module of this package in a Python process of its own, as files in a folder, and its answer."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

REQUEST, INPUTS, ANSWER = "request.json", "inputs.npz", "answer.json"


def ask(module: str, folder: Path, request: Mapping[str, Any], arrays: Mapping[str, np.ndarray], did: str) -> Any:
    """Run `module` of this package in a new Python process on a request in `folder`; return its answer.

    Raises
    ------
    RuntimeError
        If the process, which `did` something, fails; with what it printed.
    """
    write_request(folder, request, arrays)
    command, environment = module_command(module, folder)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"The process that {did} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads((folder / ANSWER).read_text(encoding="utf-8"))


def write_request(folder: Path, request: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a request and its inputs into `folder`."""
    (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
    np.savez(folder / INPUTS, *arrays.values())


def module_command(module: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a new Python process that runs `module` on what is in `folder`."""
    # the same copy of this package, whether it is installed or not
    found = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return [sys.executable, "-P", "-m", module, str(folder)], {**os.environ, "PYTHONPATH": found}


def read_request(folder: Path) -> Any:
    """Read the request in `folder`: for the process that answers it."""
    return json.loads((folder / REQUEST).read_text(encoding="utf-8"))
