"""kokoro-nb inspect: name the node of a model file that is wrong, and who is to blame."""

import argparse
import re
from pathlib import Path
from typing import Any

from kokoro_nb.commands import give_record, subcommand
from kokoro_nb.commands.diagnose_command import TARGET
from kokoro_nb.commands.inspect_process import LIBRARIES, MEMORY, apart
from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_arrays

EPILOG = """\
Each node is computed again in float64, as its definition says, on the values that it was given on the runtime.
Without --inputs valid ones are made from the graph. DIR gets a page, and for each finding a script with a model of that
node alone. The file is run in a process of its own, so that one that crashes its runtime is bad input.

exit status: 0 nothing wrong was found, 1 something is wrong, 2 bad input
"""


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    inspect = subcommand(commands, "inspect", _inspect, "name the wrong nodes of a model file", epilog=EPILOG)
    option = inspect.add_argument
    option("file", metavar="FILE", type=Path, help="an .onnx, .pt2, .pte or .mlpackage file")
    option("--inputs", metavar="NPZ", type=Path, help="its inputs by name (default: made from the graph)")
    option("--against", metavar="REFERENCE", help=f"what is right: another file, or {TARGET}")
    option("--static", action="store_true", help="read the file and run nothing")
    option("--budget", metavar="TIME", default="", help="60s, 5m; then what was seen is reported")
    option("--out", metavar="DIR", type=Path, help="write the page and the scripts")
    text = "write a float32 .onnx in float16 here, or a quantised one in float, the fewest nodes left as they are"
    option("--mend", metavar="FILE", type=Path, help=text)
    option("--level", metavar="DB", type=float, help="the least level of the mended file's outputs over their error")
    text = "interpreter of an environment with another version of the runtime, in which the file is inspected too"
    option("--other-python", metavar="PYTHON", type=Path, help=text)
    option("--memory", metavar="GB", type=float, default=MEMORY, help=f"most that it may take (default: {MEMORY:g} GB)")
    option("--worst", metavar="N", type=int, default=0, help="print the N nodes furthest off as well")


def _inspect(arguments: argparse.Namespace) -> int:
    from kokoro_nb.inspection.result_record import result_record
    from kokoro_nb.markup import table

    names = ("file", "against", "static", "mend", "level", "other_python")
    request: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    request["inputs"] = read_arrays(arguments.inputs) if arguments.inputs else None
    request["seconds"] = seconds_of(arguments.budget) if arguments.budget else float("inf")
    request["folder"] = arguments.out
    if not arguments.memory > 2 * LIBRARIES:
        raise InputError(f"With {arguments.memory:g} GB no runtime starts; give --memory more than {2 * LIBRARIES:g}.")
    report = apart(request, memory=arguments.memory)
    text = [str(report)]
    text += [table([judgement.row() for judgement in report.worst(arguments.worst)]).text] if arguments.worst else []
    text += [f"  written to {arguments.out}"] if arguments.out else []
    give_record("\n".join(text), arguments.json, lambda: result_record(report))
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
