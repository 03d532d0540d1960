"""The process in which `kokoro-nb inspect` looks into a file: one that crashes or hangs its runtime is bad input."""

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
                    while (line := _next(words, process.pid, silence)) is not None:
                        last = line
                        show(bar, line)
            except queue.Empty:
                raise InputError(f"{request['file']} hangs: no progress in {silence:.0f} s after {last}.") from None
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
    bar.set_description(counted[3].strip() if counted else line, refresh=not counted)
    bar.total = int(counted[2]) if counted else bar.total
    bar.update(int(counted[1]) - bar.n if counted else 0)


def _listen(stream: Any, words: "queue.Queue[str | None]") -> None:
    for line in stream:
        words.put(line.strip())
    words.put(None)


def _next(words: "queue.Queue[str | None]", process: int, silence: float) -> str | None:
    """Return the next word of a process, None after its last one.

    Raises
    ------
    queue.Empty
        If the process hangs.
    """
    begun = before = _worked(process)
    while True:
        try:
            return words.get(timeout=silence)
        except queue.Empty:
            now = _worked(process)
            if now - before < IDLE * silence or now - begun > VAIN * silence:
                raise
            before = now


def _worked(process: int) -> float:
    """Return the seconds of processor time of a process and of what it started; 0 once it is gone."""
    import psutil

    try:
        one = psutil.Process(process)
        return float(sum(sum(each.cpu_times()[:4]) for each in (one, *one.children(recursive=True))))
    except psutil.Error:
        return 0.0


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
        result = absent_package(error) or InputError(f"{name} cannot be inspected: {one_line(error)}.")
    with atomic(answer) as draft:
        draft.write_bytes(pickle.dumps(result))


def _reference(against: str | None) -> Any:
    """Return what a file is compared with: a path, or a module with its inputs."""
    if against is None or ":" not in Path(against).name or Path(against).exists():
        return against
    from kokoro_nb.inspection.named_function import made_by

    return made_by(against)[:2]


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
