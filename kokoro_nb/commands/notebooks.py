"""kokoro-nb doctor, run, report, clean, compare, sweep, worker: the machine and the notebooks."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from kokoro_nb.commands import give, subcommand
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.fragments import size_text
from kokoro_nb.reporting.selection import find_notebooks, notebook_names, parse_value
from kokoro_nb.reporting.versions import describe, doctor, outputs_folder
from kokoro_nb.storage import atomic


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
    subcommand(commands, "doctor", _doctor, "versions, backends and weights on this machine")
    run = subcommand(commands, "run", _run, "execute notebooks; what passed and is unchanged is kept", record=False)
    report = subcommand(commands, "report", _report, "execute notebooks and write the HTML report", record=False)
    report.add_argument("--render-only", action="store_true", help="write the report of what has been run already")
    report.add_argument("--zip", action="store_true", help="write report.zip as well, one file to send")
    for command in (run, report):
        option = command.add_argument
        option("notebooks", nargs="*", metavar="NN", help="numbers, names or paths; all of the project by default")
        text = "set a parameter in every notebook that has it; lists as in YAML: -p backends '[eager, onnxruntime]'"
        option("-p", dest="parameters", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help=text)
        option("--jobs", type=int, default=1, metavar="N", help="notebooks at once (default: 1)")
        option("--out", type=Path, metavar="DIR", help="where results go (default: outputs/ of the project, or here)")
        option("--timeout", type=float, metavar="S", help="stop a notebook after so many seconds")
        option("--memory", type=float, metavar="GB", help="stop a notebook that takes more memory")
        option("--fresh", action="store_true", help="execute again what passed and has not changed")
    subcommand(commands, "clean", _clean, "remove the exports that are saved in the cache", record=False)
    compare = subcommand(commands, "compare", _compare, "what changed between two runs or records")
    compare.add_argument("before", type=Path, metavar="A", help="folder of runs, or a .json of diagnose or inspect")
    compare.add_argument("after", type=Path, metavar="B", help="the other one")
    sweep = subcommand(commands, "sweep", _sweep, "execute a notebook over a grid of parameters", record=False)
    sweep.add_argument("spec", type=Path, metavar="FILE", help="TOML: notebook, [grid], [fixed], [requires] ...")
    where = sweep.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, default=2, metavar="N", help="processes of this machine (default: 2)")
    where.add_argument("--scheduler", metavar="ADDR", help="a Dask scheduler's address instead: tcp://host:8786")
    text = "its folder (default: outputs/sweeps/<name> of the project, or here)"
    sweep.add_argument("--out", type=Path, metavar="DIR", help=text)
    worker = subcommand(commands, "worker", _worker, "be one worker of a sweep's scheduler", record=False)
    worker.add_argument("--scheduler", required=True, metavar="ADDR", help="its address: tcp://host:8786")


def _doctor(arguments: argparse.Namespace) -> int:
    found = doctor()
    give(describe(found), arguments.json, "doctor/1", **found)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    out = _out(arguments)
    passed = _execute(arguments, out)
    print(f"Executed notebooks: {out / 'run'}")
    return int(not passed)


def _report(arguments: argparse.Namespace) -> int:
    from kokoro_nb.reporting.html import Report
    from kokoro_nb.reporting.runs import read_runs

    out = _out(arguments)
    names = notebook_names(arguments.notebooks)
    chosen = () if arguments.render_only else [path.stem for path in find_notebooks(arguments.notebooks)]
    report = Report(out / "run", out / "report", names, chosen)
    if not arguments.render_only:
        try:
            _execute(arguments, out, report.update)
        except KeyboardInterrupt:  # the index says what has ended and what was stopped, and waits for nothing
            with suppress(InputError):
                report.close()
            raise
    elif arguments.notebooks or arguments.parameters or arguments.fresh:
        raise InputError("--render-only runs nothing; leave out the notebooks, -p and --fresh.")
    print(f"Report: {report.close()}")
    if arguments.zip:
        with atomic(out / "report.zip") as draft, ZipFile(draft, "w", ZIP_DEFLATED) as archive:
            for path in sorted((out / "report").glob("*.html")):
                archive.write(path, f"report/{path.name}")
        print(f"To send: {out / 'report.zip'}")
    runs = [run for run in read_runs(out / "run") if run.notebook in names or run.source]
    return int(any(run.status != "passed" for run in runs))


def _clean(_: argparse.Namespace) -> int:
    from kokoro_nb.reporting.execute import trim_exports

    removed = trim_exports(0.0, young=0.0)
    print(f"Removed {size_text(removed)} of exports." if removed else "No exports are saved.")
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    from kokoro_nb.verbs import compare

    if {path.suffix for path in (arguments.before, arguments.after) if not path.is_dir()} - {".json", ""}:
        raise InputError("Two folders of runs or two .json files of records are compared; give these.")
    found = compare(arguments.before, arguments.after)
    about = {"settings": found.settings, "count": found.count(), "changes": [one.as_dict() for one in found.changes]}
    give(found, arguments.json, "comparison/1", **about, blame=getattr(found, "blame", ""))
    return int(found.regressed)


def _execute(arguments: argparse.Namespace, out: Path, on_change: Callable[[], object] = lambda: None) -> bool:
    """Execute the selected notebooks, and return whether all of them passed."""
    from kokoro_nb.reporting.execute import run_notebooks
    from kokoro_nb.reporting.one_notebook import Limits

    parameters: dict[str, Any] = {name: parse_value(value) for name, value in arguments.parameters}
    limits = Limits(arguments.timeout, arguments.memory)
    options: dict[str, Any] = {"fresh": arguments.fresh, "limits": limits, "on_change": on_change}
    for path in find_notebooks(arguments.notebooks) if arguments.notebooks else ():
        print(f"{path.stem}: {path.resolve()}", file=sys.stderr)
    results = run_notebooks(arguments.notebooks, parameters, arguments.jobs, out / "run", **options)
    return all(result.run.status == "passed" for result in results)


def _out(arguments: argparse.Namespace) -> Path:
    return (arguments.out or outputs_folder()).resolve()


def _sweep(arguments: argparse.Namespace) -> int:
    from kokoro_nb.reporting.selection import read_spec
    from kokoro_nb.reporting.sweep import TABLE, run_sweep

    spec = read_spec(arguments.spec)
    out = (arguments.out or outputs_folder() / "sweeps" / spec.name).resolve()
    results = run_sweep(spec, out, arguments.workers, arguments.scheduler)
    counts = Counter("unchanged" if result.unchanged else result.run.status for result in results)
    print(f"{len(results)} cells: {', '.join(f'{count} {status}' for status, count in counts.items())}")
    print(f"Table: {out / TABLE}")
    print(f"Report: {out / 'report' / 'index.html'}")
    return int(any(status not in ("passed", "skipped", "unchanged") for status in counts))


def _worker(arguments: argparse.Namespace) -> int:
    from kokoro_nb.reporting.sweep import run_worker

    run_worker(arguments.scheduler)
    return 0
