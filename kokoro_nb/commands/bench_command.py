"""kokoro-nb bench: time, memory and error of exports, against eager PyTorch and against what the machine can do."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kokoro_nb.benchmarks import DEFAULT_SUITES, SUITES
from kokoro_nb.commands import add_model, give, subcommand
from kokoro_nb.markup import table

if TYPE_CHECKING:
    from kokoro_nb.benchmarks.interleaved import Machine
    from kokoro_nb.benchmarks.suite import BenchmarkTable


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    described = [f"  {name:<18} {sentence}" for name, sentence in SUITES.items()]
    about: Any = {"usage": "kokoro-nb bench [--suite NAME ...] [options]", "epilog": "\n".join(["suites:", *described])}
    bench = subcommand(commands, "bench", _bench, "measure time, memory and error of exports", **about)
    names = f"see below (default: {', '.join(DEFAULT_SUITES)})"
    bench.add_argument("--suite", nargs="+", choices=SUITES, default=[*DEFAULT_SUITES], metavar="NAME", help=names)
    bench.add_argument("--backends", nargs="+", metavar="B", help="doctor lists them (default: each suite's own)")
    add_model(bench, "mini")
    bench.add_argument("--seconds", type=float, nargs="+", default=[1.0, 3.0], metavar="S", help="of audio (1 3)")
    bench.add_argument("--rounds", type=int, default=7, help="each program once in every round (default: 7)")
    bench.add_argument("--limit", type=float, default=60.0, help="seconds for one program in all (default: 60)")
    bench.add_argument("--tokens", type=int, default=256, metavar="N", help="room of the first stage (default: 256)")


def _bench(arguments: argparse.Namespace) -> int:
    from kokoro_nb.backends.base import quietly

    with quietly():
        from kokoro_nb.benchmarks.interleaved import this_machine
        from kokoro_nb.benchmarks.suite import BenchmarkOptions, run
    from kokoro_nb.reporting.versions import commit, versions

    names = ("weights", "backends", "rounds", "limit", "seed", "tokens")
    options = {name: getattr(arguments, name) for name in names}
    label, suites = run(arguments.suite, BenchmarkOptions(lengths=arguments.seconds, **options))
    parameters = {"suites": arguments.suite, "seconds": arguments.seconds, **options}
    about = {"weights": label, "parameters": parameters, "machine": asdict(this_machine()), "commit": commit()}
    about |= {"versions": versions(), "suites": {name: [*map(asdict, each)] for name, each in suites.items()}}
    give(_text(this_machine(), label, suites), arguments.json, "bench/1", **about)
    return 0


def _text(machine: "Machine", label: str, suites: "Mapping[str, Sequence[BenchmarkTable]]") -> str:
    lines = [f"{machine.processor}, {machine.cores} cores; weights {label}"]
    for made in (made for tables in suites.values() for made in tables):
        lines += ["", made.caption, *([table(made.rows).text] if made.rows else [])]
        lines += [f"skipped {program}: {reason}" for program, reason in made.skipped.items()]
    return "\n".join(lines)
