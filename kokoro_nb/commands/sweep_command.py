"""kokoro-nb sweep, worker: a notebook over a grid of parameters, on a cluster."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from kokoro_nb.commands import subcommand


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
    sweep = subcommand(commands, "sweep", _sweep, "execute a notebook over a grid of parameters", record=False)
    sweep.add_argument("spec", type=Path, metavar="FILE", help="TOML: notebook, [grid], [fixed], [requires] ...")
    where = sweep.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, default=2, metavar="N", help="processes of this machine (default: 2)")
    where.add_argument("--scheduler", metavar="ADDR", help="a Dask scheduler's address instead: tcp://host:8786")
    text = "its folder (default: outputs/sweeps/<name> of the project, or here)"
    sweep.add_argument("--out", type=Path, metavar="DIR", help=text)
    worker = subcommand(commands, "worker", _worker, "be one worker of a sweep's scheduler", record=False)
    worker.add_argument("--scheduler", required=True, metavar="ADDR", help="its address: tcp://host:8786")


def _sweep(arguments: argparse.Namespace) -> int:
    from kokoro_nb.reporting.sweep import TABLE, run_sweep
    from kokoro_nb.reporting.sweep_grid import read_spec
    from kokoro_nb.reporting.versions import outputs_folder

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
