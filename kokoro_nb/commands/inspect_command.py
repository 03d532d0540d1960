"""kokoro-nb inspect: name the node of a model file that is wrong, and who is to blame."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError

EPILOG = """\
Each node is computed again in float64, as its definition says, on the values that it was given on ONNX Runtime.
Without --inputs valid ones are made from the graph. DIR gets a page, node data for Model Explorer and Netron, and for
each finding a script with a model of that node alone.

exit status: 0 nothing wrong was found, 1 something is wrong, 2 bad input
"""


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    inspect = commands.add_parser(
        "inspect",
        help="name the wrong nodes of a model file",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("file", metavar="FILE", type=Path, help="an .onnx file, with its weights beside it")
    inspect.add_argument("--inputs", metavar="NPZ", type=Path, help="its inputs by name (default: made from the graph)")
    inspect.add_argument("--against", metavar="FILE", help="another .onnx file that is right")
    inspect.add_argument("--static", action="store_true", help="read the file and run nothing")
    inspect.add_argument(
        "--budget", metavar="TIME", default="", help="such as 60s or 5m; then what was seen is reported"
    )
    inspect.add_argument("--out", metavar="DIR", type=Path, help="write the page, the overlays and the scripts")
    inspect.add_argument("--worst", metavar="N", type=int, default=0, help="print the N nodes furthest off as well")
    inspect.set_defaults(command=_inspect)


def _inspect(arguments: argparse.Namespace) -> int:
    from kokoro_nb.inspection import inspect
    from kokoro_nb.markup import table

    seconds = seconds_of(arguments.budget) if arguments.budget else float("inf")
    inputs = read_inputs(arguments.inputs) if arguments.inputs else None
    report = inspect(
        arguments.file,
        inputs,
        arguments.against,
        static=arguments.static,
        seconds=seconds,
        folder=arguments.out,
        tell=lambda text: print(f"\r{text}", end="\r", file=sys.stderr) if sys.stderr.isatty() else None,
    )
    print(report)
    if arguments.worst:
        print(table([judgement.row() for judgement in report.worst(arguments.worst)]).text)
    if arguments.out:
        print(f"  written to {arguments.out}")
    return 1 if report.findings else 0


def seconds_of(text: str) -> float:
    """Return a time such as ``60s``, ``5m`` or ``90`` in seconds.

    >>> seconds_of("5m"), seconds_of("60s"), seconds_of("1.5")
    (300.0, 60.0, 1.5)

    Raises
    ------
    InputError
        If it is no time above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if seconds <= 0:
        raise InputError(f"'{text}' is no time; use a number with s, m or h, such as 60s.")
    return seconds


def read_inputs(path: Path) -> dict[str, Any]:
    """Read arrays by name.

    Raises
    ------
    InputError
        If it is no .npz file.
    """
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as saved:
            if not hasattr(saved, "files"):
                raise ValueError("one array")
            return {name: saved[name] for name in saved.files}
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is no .npz file of arrays by name; write it with numpy.savez.") from error
