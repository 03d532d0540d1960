"""Where the environment with the old ExecuTorch is."""

import os
import subprocess
from pathlib import Path

from kokoro_nb.errors import InputError

VARIABLE = "KOKORO_NB_REPLAY"
OLD = "0.7.0"
_HERE = Path(__file__).parents[3] / ".venv-replay" / "bin" / "python"
_ASK = "from importlib.metadata import version; print(version('executorch'))"


def old_python() -> Path:
    """Return the interpreter of the old environment: ``$KOKORO_NB_REPLAY``, or the one that ``make replay`` set up.

    Raises
    ------
    InputError
        If it is not there, or has another ExecuTorch.
    """
    named = os.environ.get(VARIABLE)
    python = Path(named) if named else _HERE
    if not python.is_file():
        where = f"${VARIABLE} names no interpreter" if named else "its environment is not set up"
        raise InputError(f"ExecuTorch {OLD} cannot be executed here: {where}; `make replay` sets it up.")
    done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=False)
    found = done.stdout.strip() or "none"
    if found != OLD:
        raise InputError(
            f"ExecuTorch {OLD} cannot be executed here: the interpreter for it has {found}; `make replay` sets it up."
        )
    return python


def absent() -> str | None:
    """Return None if the old environment is here, else the reason why not, in one sentence."""
    try:
        old_python()
    except InputError as error:
        return str(error)
    return None
