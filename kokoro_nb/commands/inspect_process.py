"""The process in which `kokoro-nb inspect` looks into a file: one that crashes or hangs its runtime is bad input."""

import multiprocessing
import os
import pickle
import re
import signal
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError, absent_package, one_line

SILENCE = 50.0  # seconds without a word of progress after which the process is looked at
IDLE, VAIN = 0.005, 2.0  # times that: it hangs with less processor time in them, or with more since its last word
MEMORY = 4.0  # GB (10**9 bytes)
LIBRARIES = 0.5  # GB that the runtimes' own code takes, which the system's limit of data does not count


def apart(request: dict[str, Any], silence: float = SILENCE, memory: float = MEMORY) -> Any:
    """Inspect a file in a process of its own and return the report.

    Parameters
    ----------
    request : dict
        The arguments of `kokoro_nb.inspect` by name; ``against`` may be the name of a function that makes a module.
    silence : float
        Seconds without a word of progress after which the process is ended, if it did nothing in them, or has worked
        for twice as long: on a busy machine one that works says nothing for long, too.
    memory : float
        GB (10**9 bytes) that it may take.

    Raises
    ------
    InputError
        What the process raised, or that it crashed, ran out of memory or hung.
    """
    from tqdm import tqdm

    context = multiprocessing.get_context("spawn")
    words, speaker = context.Pipe(duplex=False)
    found: Any = None
    last = "it was begun"
    with tempfile.TemporaryDirectory() as room:
        noise = Path(room, "noise")  # what the runtimes print beside the report
        process = context.Process(
            target=_serve, args=(speaker, noise, str(request["file"]), pickle.dumps(request), memory)
        )
        process.start()
        speaker.close()
        try:
            with tqdm(unit="node", disable=None, leave=False) as bar:
                while isinstance(found := _next(words, process.pid, silence), str):
                    last = found
                    show(bar, last)
        except TimeoutError:
            raise InputError(f"{request['file']} hangs: no progress in {silence:.0f} s after {last}.") from None
        except (EOFError, OSError):
            process.join()
            code = process.exitcode or 0
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            said = "".join(f": {line}" for line in noise.read_text(errors="replace").strip().splitlines()[-1:])
            raise InputError(f"{request['file']} crashes what runs it ({how}) after {last}{said}.") from None
        finally:
            if found is None or isinstance(found, str):
                process.kill()
            process.join()
    if isinstance(found, InputError):
        raise found
    return found


def show(bar: Any, line: str) -> None:
    """Show a word of progress: ``12 of 300 nodes`` moves a `tqdm.tqdm`, anything else is written before it."""
    counted = re.match(r"(\d+) of (\d+) nodes(.*)", line)
    bar.set_description(counted[3].strip() if counted else line, refresh=not counted)
    bar.total = int(counted[2]) if counted else bar.total
    bar.update(int(counted[1]) - bar.n if counted else 0)


def _next(words: Connection, process: int | None, silence: float) -> Any:
    """Return the next word of a process, or its answer.

    Raises
    ------
    TimeoutError
        If the process hangs.
    EOFError
        If it has ended.
    """
    begun = before = _worked(process)
    while not words.poll(silence):
        now = _worked(process)
        if now - before < IDLE * silence or now - begun > VAIN * silence:
            raise TimeoutError
        before = now
    return words.recv()


def _worked(process: int | None) -> float:
    """Return the seconds of processor time of a process and of what it started; 0 once it is gone."""
    import psutil

    try:
        one = psutil.Process(process)
        return float(sum(sum(each.cpu_times()[:4]) for each in (one, *one.children(recursive=True))))
    except psutil.Error:
        return 0.0


def _serve(words: Connection, noise: Path, name: str, order: bytes, memory: float) -> None:
    """Answer a request: the process that `apart` starts, whose temporary files are removed with those of `noise`."""
    import resource

    most = int((memory - LIBRARIES) * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # what it allocates; inherited by what it starts
    os.environ["TMPDIR"] = tempfile.tempdir = str(noise.parent)
    with noise.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    from kokoro_nb.inspection import inspect

    try:
        request = pickle.loads(order)
        request["against"] = _reference(request["against"])
        result: Any = inspect(**request, tell=words.send)
    except InputError as error:
        result = error
    except MemoryError:
        result = InputError(f"{name} needs more than {memory:g} GB of memory; give --memory more.")
    except Exception as error:  # of a library, on another's file: whatever comes is said in a sentence
        result = absent_package(error) or InputError(f"{name} cannot be inspected: {one_line(error)}.")
    words.send(result)


def _reference(against: str | None) -> Any:
    """Return what a file is compared with: a path, or a module with its inputs."""
    if against is None or ":" not in Path(against).name or Path(against).exists():
        return against
    from kokoro_nb.inspection.named_function import made_by

    return made_by(against)[:2]
