"""kokoro-nb inspect: name the node of a model file that is wrong, and who is to blame."""

import argparse
import pickle
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError

EPILOG = """\
Each node is computed again in float64, as its definition says, on the values that it was given on the runtime.
Without --inputs valid ones are made from the graph. DIR gets a page, node data for Model Explorer and Netron, and for
each finding a script with a model of that node alone. The file is run in a process of its own, so that one that crashes
its runtime is bad input. The same command goes on where one was killed, or where its time was up.

exit status: 0 nothing wrong was found, 1 something is wrong, 2 bad input
"""


SILENCE = 50.0  # seconds without a word of progress after which the process is taken for hung
MEMORY = 4.0  # GB (10**9 bytes)
LIBRARIES = 0.5  # GB that the runtimes' own code takes, which the system's limit of data does not count


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    inspect = commands.add_parser(
        "inspect",
        help="name the wrong nodes of a model file",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("file", metavar="FILE", type=Path, help="an .onnx, .pt2, .pte or .mlpackage file")
    inspect.add_argument("--inputs", metavar="NPZ", type=Path, help="its inputs by name (default: made from the graph)")
    inspect.add_argument(
        "--against",
        metavar="REFERENCE",
        help="what is right: another file, or file.py:function or package.module:function that returns a module and "
        "example inputs by name",
    )
    inspect.add_argument("--static", action="store_true", help="read the file and run nothing")
    inspect.add_argument(
        "--budget", metavar="TIME", default="", help="such as 60s or 5m; then what was seen is reported"
    )
    inspect.add_argument("--out", metavar="DIR", type=Path, help="write the page, the overlays and the scripts")
    inspect.add_argument(
        "--mend",
        metavar="FILE",
        type=Path,
        help="write a float32 .onnx in float16 here, the fewest nodes left as they are; or a quantised one with the "
        "fewest layers back in float",
    )
    inspect.add_argument(
        "--level", metavar="DB", type=float, help="the least level of the mended file's outputs over their error"
    )
    inspect.add_argument(
        "--other-python",
        metavar="PYTHON",
        type=Path,
        help="interpreter of an environment with another version of onnxruntime, on which the file is run as well",
    )
    inspect.add_argument(
        "--memory", metavar="GB", type=float, default=MEMORY, help=f"most that it may take (default: {MEMORY:g} GB)"
    )
    inspect.add_argument("--worst", metavar="N", type=int, default=0, help="print the N nodes furthest off as well")
    inspect.set_defaults(command=_inspect)


def _inspect(arguments: argparse.Namespace) -> int:
    from kokoro_nb.markup import table

    request = {
        "file": arguments.file,
        "inputs": read_inputs(arguments.inputs) if arguments.inputs else None,
        "against": arguments.against,
        "static": arguments.static,
        "seconds": seconds_of(arguments.budget) if arguments.budget else float("inf"),
        "folder": arguments.out,
        "mend": arguments.mend,
        "level": arguments.level,
        "other_python": arguments.other_python,
    }
    if not arguments.memory > 2 * LIBRARIES:
        raise InputError(f"With {arguments.memory:g} GB no runtime starts; give --memory more than {2 * LIBRARIES:g}.")
    report = apart(request, memory=arguments.memory)
    print(report)
    if arguments.worst:
        print(table([judgement.row() for judgement in report.worst(arguments.worst)]).text)
    if arguments.out:
        print(f"  written to {arguments.out}")
    return 1 if report.findings else 0


def apart(request: dict[str, Any], silence: float = SILENCE, memory: float = MEMORY) -> Any:
    """Inspect a file in a process of its own and return the report.

    Parameters
    ----------
    request : dict
        The arguments of `kokoro_nb.inspect` by name; ``against`` may be the name of a function that makes a module.
    silence : float
        Seconds without a word of progress after which the process is ended.
    memory : float
        GB (10**9 bytes) that it may take.

    Raises
    ------
    InputError
        What the process raised, or that it crashed, ran out of memory or hung.
    """
    from tqdm import tqdm

    with tempfile.TemporaryDirectory() as room:
        order, answer = Path(room, "request"), Path(room, "answer")
        order.write_bytes(pickle.dumps(request))
        command = [sys.executable, "-m", __name__, str(order), str(answer), str(memory), str(request["file"])]
        words: queue.Queue[str | None] = queue.Queue()
        noise = Path(room, "noise")  # what the runtimes print beside the report
        with (
            noise.open("w") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            assert process.stdout is not None
            threading.Thread(target=_listen, args=(process.stdout, words), daemon=True).start()
            last = "it was begun"
            try:
                with tqdm(unit="node", disable=None, leave=False) as bar:
                    while (line := words.get(timeout=silence)) is not None:
                        last = line
                        show(bar, line)
            except queue.Empty:
                raise InputError(f"{request['file']} hangs: nothing in {silence:.0f} s after {last}.") from None
            finally:
                if process.poll() is None and not answer.exists():
                    process.kill()
            code = process.wait()
        if not answer.exists():
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            said = noise.read_text(errors="replace").strip().splitlines()[-1:]
            raise InputError(
                f"{request['file']} crashes what runs it ({how}) after {last}{': ' if said else ''}{'; '.join(said)}."
            )
        result = pickle.loads(answer.read_bytes())
    if isinstance(result, InputError):
        raise result
    return result


def show(bar: Any, line: str) -> None:
    """Show a word of progress: ``12 of 300 nodes`` moves a `tqdm.tqdm`, anything else is written before it."""
    counted = re.match(r"(\d+) of (\d+) nodes(.*)", line)
    if counted:
        bar.n, bar.total = int(counted[1]), int(counted[2])
    bar.set_description(counted[3].strip() if counted else line)


def _listen(stream: Any, words: "queue.Queue[str | None]") -> None:
    for line in stream:
        words.put(line.strip())
    words.put(None)


def _serve(order: Path, answer: Path, memory: float, name: str) -> None:
    """Answer a request: the process that `apart` starts."""
    import resource

    most = int((memory - LIBRARIES) * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # what it allocates; inherited by what it starts
    from kokoro_nb.inspection import inspect
    from kokoro_nb.storage import atomic

    try:
        request = pickle.loads(order.read_bytes())
        request["against"] = _reference(request["against"])
        result: Any = inspect(**request, tell=lambda text: print(text, flush=True))
    except InputError as error:
        result = error
    except MemoryError:
        result = InputError(f"{name} needs more than {memory:g} GB of memory; give --memory more.")
    except Exception as error:  # of a library, on another's file: whatever comes is said in a sentence
        text = " ".join(str(error).split())[:300]
        result = InputError(f"{name} cannot be inspected: {type(error).__name__}: {text}.")
    with atomic(answer) as draft:
        draft.write_bytes(pickle.dumps(result))


def _reference(against: str | None) -> Any:
    """Return what a file is compared with: a path, or a module with its inputs."""
    if against is None or ":" not in Path(against).name or Path(against).exists():
        return against
    from kokoro_nb.locate.named_function import made_by

    return made_by(against)[:2]


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


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
