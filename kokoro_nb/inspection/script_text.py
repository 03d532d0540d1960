"""The script that shows the error of one operator without this package, and whether it does so in a fresh process."""

import re
from pathlib import Path

from kokoro_nb.errors import InputError
from kokoro_nb.run_apart import run_apart

SHOWN = 0.99  # share of the error that it must show
PATIENCE = 120.0  # seconds
HEAD = '''\
"""{statement}

Needs numpy and {needs}. One operator, the values that went into it, and what it gives in float64.
"""
from pathlib import Path

import numpy as np
'''
TAIL = """\
given, right = given.astype(np.float64), saved["right"]
both = np.isfinite(given) & np.isfinite(right)
error = np.abs(given - right)[both].max(initial=0.0)
print(f"finite {{np.isfinite(given).mean():.4%}}, should be {{np.isfinite(right).mean():.4%}}")
print(f"largest error {{error:.6g}}, in the file {error:.6g}")
"""
SAID = re.compile(r"finite (\S+)%, should be (\S+)%\s+largest error (\S+), in the file (\S+)")


def script(statement: str, needs: str, lines: str, error: float) -> str:
    """Return the script.

    Parameters
    ----------
    statement : str
        What is wrong.
    needs : str
        Packages, in words.
    lines : str
        The imports, and lines that read ``here / "values.npz"`` as ``saved`` and compute ``given``.
    error : float
        Of the operator in the file.
    """
    plain = statement.replace("\\", "/").replace('"""', "'''")
    return HEAD.format(statement=plain, needs=needs) + lines + TAIL.format(error=error)


def tried(path: Path, kind: str) -> None:
    """Run a script in a process of its own.

    Raises
    ------
    InputError
        If it does not show the error there.
    """
    done = run_apart(["-I", path], seconds=PATIENCE, folder=path.parent)
    if done.status is None:
        raise InputError("alone it does not end.")
    said = SAID.search(done.out)
    if said is None:
        raise InputError(f"alone it stops: {done.last[:200]}")
    finite, should, error, stated = map(float, said.groups())
    unlike = finite < 100 if kind == "nonfinite" else finite != should
    if not unlike and not (kind != "nonfinite" and error >= SHOWN * stated > 0):
        raise InputError("in a process of its own, on the same values, it is right.")
