"""kokoro-nb repair, validate-steps, weights, bench, defects: what is measured of Kokoro and of installed versions."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kokoro_nb.benchmarks import DEFAULT_SUITES, SUITES
from kokoro_nb.commands import add_model, give, import_models, subcommand
from kokoro_nb.markup import table
from kokoro_nb.reporting.versions import commit, versions
from kokoro_nb.storage import require_own


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
    repair = subcommand(commands, "repair", _repair, "find the fewest patches that the decoder's export needs")
    text = "check the whole pipeline step by step on a backend"
    steps = subcommand(commands, "validate-steps", _validate_steps, text)
    steps.add_argument("--reference", default="eager-float64", metavar="R", help="(default: eager-float64)")
    steps.add_argument("--tokens", type=int, metavar="N", help="pad the tokens to so many")
    for command in (repair, steps):
        command.add_argument("--limit", type=float, default=1e-3, help="largest error, of the peak (default: 0.001)")
        add_model(command, "narrow", 8)
    weights = subcommand(commands, "weights", _weights, "account for every key of a checkpoint")
    weights.add_argument("weights", metavar="W", help="a folder, a .pth or .safetensors file, or a hub id")
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
    defects = subcommand(commands, "defects", _defects, "known defects of the installed versions")
    defects.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of defects (default: all)")
    defects.add_argument("--reports", type=Path, metavar="DIR", help="write a report for each that is there")


def _repair(arguments: argparse.Namespace) -> int:
    model, case = _captured(arguments)
    from kokoro_nb.studies.repair import repair

    found = repair(model, case, arguments.backend, arguments.frames, limit=arguments.limit)
    give(_text([found.as_dict(), *found.proof()]), arguments.json, "repair/1", **found.as_json())
    return int(found.verdict == "fail")


def _validate_steps(arguments: argparse.Namespace) -> int:
    model, case = _captured(arguments)
    from kokoro_nb.studies.validate_steps import first_wrong, validate_steps

    steps = validate_steps(model, case, arguments.backend, arguments.reference, arguments.frames, arguments.tokens)
    rows = [step.as_dict() for step in steps]
    give(_text(rows), arguments.json, "validate-steps/1", steps=rows)
    return int(first_wrong(steps, arguments.limit) is not None)


def _captured(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return Kokoro's model, and the inputs of its decoder for the text."""
    from kokoro_nb.backends.base import quietly

    with quietly():
        from kokoro_nb.models.case import capture
        from kokoro_nb.models.kokoro import load_model

        kokoro = load_model(arguments.weights, arguments.seed)
        return kokoro.model, capture(kokoro, arguments.text, seed=arguments.seed)


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each row."""
    short = ({key: f"{one:.3g}" if isinstance(one, float) else one for key, one in row.items()} for row in rows)
    return "\n".join("; ".join(f"{key} {value}" for key, value in row.items()) for row in short)


def _weights(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.models.weights import LoadingError

    try:
        kokoro = load_model(arguments.weights)
    except LoadingError as error:  # main says the sentence
        _show(error.report, None, arguments.json)
        raise
    _show(kokoro.loading, kokoro, arguments.json)
    return 0


def _show(report: Any, kokoro: Any, where: str | None) -> None:
    about = {"weights": kokoro.weights.label if kokoro else "", "fits": bool(kokoro)}
    lines = []
    if kokoro:
        voice = f"voice where none is named: {kokoro.default_voice}"
        lines = [kokoro.weights.label, f"{len(kokoro.model.vocab)} phonemes; {voice}"]
    if report:
        lines += [f"{row['keys']}: {row['how many']} ({row['which']})" for row in report.rows()]
        lines += [f"stored as {', '.join(report.dtypes)}"]
    give("\n".join(lines), where, "weights/1", **about, loading=report and asdict(report))


def _bench(arguments: argparse.Namespace) -> int:
    from kokoro_nb.backends.base import quietly

    with quietly():
        from kokoro_nb.benchmarks.interleaved import this_machine
        from kokoro_nb.benchmarks.suite import BenchmarkOptions, run

    names = ("weights", "backends", "rounds", "limit", "seed", "tokens")
    options = {name: getattr(arguments, name) for name in names}
    label, suites = run(arguments.suite, BenchmarkOptions(lengths=arguments.seconds, **options))
    machine = this_machine()
    lines = [f"{machine.processor}, {machine.cores} cores; weights {label}"]
    for made in (made for tables in suites.values() for made in tables):
        lines += ["", made.caption, *([table(made.rows).text] if made.rows else [])]
        lines += [f"skipped {program}: {reason}" for program, reason in made.skipped.items()]
    parameters = {"suites": arguments.suite, "seconds": arguments.seconds, **options}
    about = {"weights": label, "parameters": parameters, "machine": asdict(machine), "commit": commit()}
    about |= {"versions": versions(), "suites": {name: [*map(asdict, each)] for name, each in suites.items()}}
    give("\n".join(lines), arguments.json, "bench/1", **about)
    return 0


def _defects(arguments: argparse.Namespace) -> int:
    from kokoro_nb.defects import DEFECTS, defect, measure
    from kokoro_nb.defects.catalogue import STATE, brief, write_reports

    chosen = [each for each in DEFECTS if not arguments.names or any(part in each.name for part in arguments.names)]
    chosen = chosen or [defect(arguments.names[0])]
    if arguments.reports:
        require_own(arguments.reports, STATE, "reports", "folder")  # before minutes of work
    measured = []
    for number, each in enumerate(chosen, 1):
        print(f"{number} of {len(chosen)}: {each.name}", file=sys.stderr, flush=True)
        measured.append(measure(each))
    rows = [each.as_dict() for each in measured]
    give(table([*map(brief, measured)]).text, arguments.json, "defects/2", defects=rows)
    if arguments.reports:
        written = write_reports(measured, arguments.reports)
        print(f"{arguments.reports}: {len(written)} reports, and {STATE}", file=sys.stderr)
    return 0
