"""kokoro-nb diagnose, survey, inspect: name what is wrong in an export, or in a model file, and who is to blame.

`inspect` looks into a file in a process of its own: one that crashes or hangs its runtime is bad input.
"""

import argparse
import multiprocessing
import os
import pickle
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kokoro_nb.commands import add_model, give, give_record, import_models, subcommand
from kokoro_nb.errors import InputError, absent_package, one_line
from kokoro_nb.markup import table
from kokoro_nb.storage import read_arrays

EPILOG = """\
Each operator that the runtime shows is recomputed in float64 on its own inputs; the ratio is its error over the
rounding error of that operator: above 1 it is wrong. Where a delegate hides its operators, parts are compiled alone.

exit status: 0 the output is right and so is every operator, 1 what is wrong is named, 2 bad input, 3 something is
wrong, or may be, and is not localised: what was excluded and what to do next is printed
"""
INSPECT_EPILOG = """\
Each node is computed again in float64, as its definition says, on the values that it was given on the runtime.
Without --inputs valid ones are made from the graph. DIR gets a page, and for each finding a script with a model of that
node alone. The file is run in a process of its own, so that one that crashes its runtime is bad input.

exit status: 0 nothing wrong was found, 1 something is wrong, 2 bad input
"""
TARGET = "file.py:function or package.module:function that returns a module and example inputs by name"
SILENCE = 50.0  # seconds without a word of progress after which the process is looked at
IDLE, VAIN = 0.005, 2.0  # times that: it hangs with less processor time in them, or with more since its last word
MEMORY = 4.0  # GB (10**9 bytes)
LIBRARIES = 0.5  # GB that the runtimes' own code takes, which the system's limit of data does not count


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    diagnose = subcommand(commands, "diagnose", _diagnose, "name the wrong operators of an export", epilog=EPILOG)
    text = "; as a third it may return what it was rewritten from, such a pair (default: Kokoro's decoder)"
    diagnose.add_argument("target", nargs="?", metavar="TARGET", help=TARGET + text)
    add_model(diagnose, "narrow", 24)
    text = "put other forms in the place of what the runtime lacks"
    diagnose.add_argument("--supply", nargs="+", default=[], metavar="NAME", help=text)
    diagnose.add_argument("--at", type=Path, metavar="NPZ", help="inputs of another length, diagnosed as well")
    diagnose.add_argument("--artefact", type=Path, metavar="FILE", help="its file, in place of an export")
    diagnose.add_argument("--precision", default="float32", metavar="P", help="of the reference: float64 or float32")
    diagnose.add_argument("--method", default="auto", choices=("auto", "tracing", "bisection"))
    diagnose.add_argument("--fault", action="append", default=[], metavar="SPEC", help="plant kind/seed@operator first")
    diagnose.add_argument("--no-remedies", action="store_true", help="do not try what cures it, which exports again")
    diagnose.add_argument("--html", type=Path, metavar="FILE", help="write the diagnosis as an HTML page")
    diagnose.add_argument("--bundle", type=Path, metavar="DIR", help="write what reproduces the culprit alone")
    survey = subcommand(commands, "survey", _survey, "export a module to several backends; 1 if one falls")
    survey.add_argument("target", metavar="TARGET", help=TARGET)
    survey.add_argument("--backends", nargs="+", metavar="B", help="doctor lists them (default: all that are here)")
    survey.add_argument("--calls", type=int, default=3, metavar="N", help="of each loaded program (default: 3)")
    for command in (diagnose, survey):
        text = "on while it is exported: names, all or none (default: all for Kokoro, else none)"
        command.add_argument("--patches", nargs="+", metavar="P", help=text)
        command.add_argument("--inputs", type=Path, metavar="NPZ", help="in place of the inputs that TARGET returns")
        text = "axes of open size, of a module of your own"
        command.add_argument("--dynamic", nargs="+", default=[], metavar="NAME:AXIS[:MOST]", help=text)
    inspect = subcommand(commands, "inspect", _inspect, "name the wrong nodes of a model file", epilog=INSPECT_EPILOG)
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


def _diagnose(given: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.backends import backend
    from kokoro_nb.backends.base import running
    from kokoro_nb.inspection import diagnose
    from kokoro_nb.inspection.inspection_report import result_record
    from kokoro_nb.reporting.execute import DIAGNOSIS, require_memory
    from kokoro_nb.studies.diagnose import kokoro_decoder, own_module

    running(backend(given.backend))  # before anything takes time
    for path in (given.inputs, given.artefact, given.at):
        if path is not None and not path.exists():
            raise InputError(f"There is no file {path}; check the path.")
    if given.target:
        target = own_module(given.target, given.fault, _patches(given.patches), given.inputs, given.dynamic)
    elif given.inputs or given.dynamic or given.at:
        raise InputError(
            "Kokoro's decoder takes its inputs from --text; --inputs, --dynamic and --at are for a module of your own."
        )
    else:
        require_memory("a diagnosis", given.weights, DIAGNOSIS)
        patches = _patches(given.patches or ["all"])
        target = kokoro_decoder(given.weights, given.seed, given.text, given.frames, given.fault, patches)
    known = target.reference or (target.healthy if given.fault else None)
    about: Any = {"method": given.method, "precision": given.precision, "artefact": given.artefact}
    about |= {"supply": given.supply, "at": None if given.at is None else read_arrays(given.at)}
    found = diagnose(target.candidate, target.inputs, given.backend, known, remedies=not given.no_remedies, **about)
    if given.html:
        found.save_html(given.html)
    unwritten = _bundled(found, given.bundle) if given.bundle else ""
    text = "\n".join([target.label, *(f"planted: {fault}" for fault in given.fault), str(found)])
    give_record(text, given.json, lambda: result_record(found, target.label, planted=given.fault))
    if unwritten:
        print(f"kokoro-nb: no bundle was written: {unwritten}", file=sys.stderr)
    return found.exit_status


def _survey(given: argparse.Namespace) -> int:
    from kokoro_nb.backends import BACKENDS, backend
    from kokoro_nb.locate.survey import survey
    from kokoro_nb.studies.diagnose import own_module

    chosen = [backend(name) for name in given.backends or BACKENDS]
    chosen = chosen if given.backends else [one for one in chosen if not one.available()]
    target = own_module(given.target, [], _patches(given.patches), given.inputs, given.dynamic)
    found = survey(target.candidate, target.inputs, chosen, given.calls)
    rows, label = [one.as_dict() for one in found], target.label
    give(f"{label}\n{table(rows).text}", given.json, "survey/1", label=label, backends=rows)
    return int(any(one.verdict == "fail" for one in found))


def _patches(given: Sequence[str] | None) -> Sequence[str]:
    """Return names of patches: ``all`` and ``none`` stand alone."""
    if given and len(given) > 1 and ("all" in given or "none" in given):
        raise InputError("'all' and 'none' stand alone; give either, or names of patches.")
    if not given or given == ["none"]:
        return ()
    from kokoro_nb.models.patches import EXPORT_PATCHES

    return EXPORT_PATCHES if given == ["all"] else tuple(given)


def _bundled(found: Any, folder: Path) -> str:
    """Write the bundle, and return why none was written; empty if one was."""
    if found.verdict == "pass":
        return "nothing is wrong."
    try:
        found.save_bundle(folder)
    except InputError as error:
        return str(error)
    return ""


def _inspect(arguments: argparse.Namespace) -> int:
    from kokoro_nb.inspection.inspection_report import result_record

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
    from kokoro_nb.inspection.procedure import made_by

    return made_by(against)[:2]
