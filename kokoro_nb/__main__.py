"""The command line: kokoro-nb doctor, run, report, localise, repair, validate-steps, bench."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready

if TYPE_CHECKING:
    from kokoro.model import KModel

    from kokoro_nb.models.case import Case
    from kokoro_nb.reporting.execute import Outcome

EPILOG = """\
examples:
  kokoro-nb doctor                      what can be used on this machine, and why not
  kokoro-nb run 01 03 -p weights narrow --jobs 2
  kokoro-nb report                      run every notebook, then write outputs/report/index.html
  kokoro-nb localise --backend onnxruntime --fault sign_flip@decoder.decode.1.norm1:add

exit status: 0 all passed, 1 a notebook failed or no proof that every operator is right, 2 bad input, 130 interrupted
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; those of the process by default.
    """
    try:
        arguments = _parser().parse_args(argv)
        return arguments.command(arguments)
    except InputError as error:
        print(f"kokoro-nb: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("kokoro-nb: interrupted; the same command goes on from here.", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Tell what is wrong in one sentence, as every other bad input is told."""
        raise InputError(f"{message}; see {self.prog} --help.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kokoro-nb",
        description="Take a speech model apart, export it, and see exactly where and why an export goes wrong.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kokoro-nb {_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")

    doctor = commands.add_parser("doctor", help="versions, backends and weights on this machine")
    doctor.add_argument("--json", action="store_true", help="as JSON")
    doctor.set_defaults(command=_doctor)

    run = commands.add_parser("run", help="execute notebooks; what passed and has not changed is kept")
    run.set_defaults(command=_run)
    report = commands.add_parser("report", help="execute notebooks and write the HTML report")
    report.add_argument("--render-only", action="store_true", help="write the report of what has been run already")
    report.set_defaults(command=_report)
    for command in (run, report):
        command.add_argument("notebooks", nargs="*", metavar="NN", help="numbers or names of notebooks; all by default")
        command.add_argument(
            "-p",
            nargs=2,
            action="append",
            default=[],
            metavar=("NAME", "VALUE"),
            dest="parameters",
            help="set a parameter in every notebook that has it; lists as in YAML: -p backends '[eager, onnxruntime]'",
        )
        command.add_argument("--jobs", type=int, default=1, metavar="N", help="notebooks at once (default: 1)")
        command.add_argument(
            "--out", type=Path, metavar="DIR", help="where results go (default: the project's outputs/)"
        )
        command.add_argument("--fresh", action="store_true", help="execute again what passed and has not changed")
    localise = commands.add_parser("localise", help="find the first wrong operator of the decoder on a backend")
    localise.add_argument("--backend", required=True, metavar="B", help="which to look into; doctor lists them")
    localise.add_argument("--weights", default="narrow", metavar="W", help="as in the notebooks (default: narrow)")
    localise.add_argument("--seed", type=int, default=0, help="of random weights and of the noise (default: 0)")
    localise.add_argument("--frames", type=int, default=24, help="length, 40 to the second (default: 24)")
    localise.add_argument("--text", default="Hello world, this is a test.", help="what is spoken")
    localise.add_argument(
        "--reference", default="eager", choices=("eager", "eager-float64"), metavar="R", help="eager or eager-float64"
    )
    localise.add_argument("--fault", action="append", default=[], metavar="SPEC", help="plant kind/seed@operator first")
    localise.add_argument("--bundle", type=Path, metavar="DIR", help="write what reproduces the finding there")
    localise.add_argument("--json", action="store_true", help="as JSON")
    localise.set_defaults(command=_localise)

    repair = commands.add_parser(
        "repair", help="find the smallest set of patches with which the decoder's export works"
    )
    repair.set_defaults(command=_repair)
    steps = commands.add_parser("validate-steps", help="check the whole pipeline step by step on a backend")
    steps.add_argument(
        "--reference", default="eager-float64", metavar="R", help="what is right (default: eager-float64)"
    )
    steps.add_argument("--tokens", type=int, metavar="N", help="pad the tokens to so many")
    steps.set_defaults(command=_validate_steps)
    for command in (repair, steps):
        command.add_argument("--backend", required=True, metavar="B", help="doctor lists them")
        command.add_argument("--weights", default="narrow", metavar="W", help="as in the notebooks (default: narrow)")
        command.add_argument("--seed", type=int, default=0, help="of random weights and of the noise (default: 0)")
        command.add_argument("--text", default="Hello world, this is a test.", help="what is spoken")
        command.add_argument("--frames", type=int, default=8, help="length, 40 to the second (default: 8)")
        command.add_argument("--limit", type=float, default=1e-3, help="largest error, of the peak (default: 0.001)")
        command.add_argument("--json", action="store_true", help="as JSON")

    bench = commands.add_parser("bench", help="measure what looking into the decoder costs, in one run")
    bench.add_argument("--backends", nargs="+", default=["eager", "onnxruntime", "coreml-reference"], metavar="B")
    bench.add_argument("--weights", default="seeded", metavar="W", help="as in the notebooks (default: seeded)")
    bench.add_argument("--frames", type=int, default=24, help="length, 40 to the second (default: 24)")
    bench.add_argument("--calls", type=int, default=5, help="calls of each kind, in turn (default: 5)")
    bench.set_defaults(command=_bench)
    return parser


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kokoro_nb")
    except PackageNotFoundError:
        return "(not installed)"


def _doctor(arguments: argparse.Namespace) -> int:
    from kokoro_nb.reporting.doctor import describe, doctor

    found = doctor()
    print(json.dumps(found, indent=2) if arguments.json else describe(found))
    return 0


def _import_models() -> None:
    """Import the models' packages, which print while they are imported."""
    from kokoro_nb.backends.base import quietly

    with quietly():
        import kokoro_nb.models.kokoro  # noqa: F401


def _localise(arguments: argparse.Namespace) -> int:
    _import_models()
    from kokoro_nb.numerics.decoder_search import localise_decoder

    found = localise_decoder(
        arguments.backend,
        arguments.weights,
        arguments.seed,
        arguments.text,
        arguments.frames,
        arguments.reference,
        arguments.fault,
        arguments.bundle,
    )
    print(json.dumps(found.as_dict(), indent=2) if arguments.json else found.describe())
    return int(found.verdict != "pass")


def _repair(arguments: argparse.Namespace) -> int:
    _import_models()
    from kokoro_nb.numerics.repair import repair

    model, case = _captured(arguments)
    found = repair(model, case, arguments.backend, arguments.frames, limit=arguments.limit)
    _print([found.as_dict(), *found.proof()], found.as_json() if arguments.json else None)
    return int(found.verdict == "fail")


def _validate_steps(arguments: argparse.Namespace) -> int:
    _import_models()
    from kokoro_nb.numerics.step_rows import first_wrong
    from kokoro_nb.numerics.steps import validate_steps

    model, case = _captured(arguments)
    frames, tokens = arguments.frames, arguments.tokens
    steps = validate_steps(model, case, arguments.backend, arguments.reference, frames, tokens)
    rows = [step.as_dict() for step in steps]
    _print(rows, rows if arguments.json else None)
    return int(first_wrong(steps, arguments.limit) is not None)


def _captured(arguments: argparse.Namespace) -> "tuple[KModel, Case]":
    from kokoro_nb.backends.base import quietly
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model

    with quietly():
        kokoro = load_model(arguments.weights, arguments.seed)
        return kokoro.model, capture(kokoro, arguments.text, seed=arguments.seed)


def _print(rows: Sequence[Mapping[str, Any]], whole: object | None = None) -> None:
    """Print `whole` as JSON, or without it a line for each row."""
    if whole is not None:
        print(json.dumps(json_ready(whole), indent=2))
        return
    for row in rows:
        told = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values())
        print("; ".join(f"{key} {value}" for key, value in zip(row, told, strict=True)))


def _bench(arguments: argparse.Namespace) -> int:
    _import_models()
    from kokoro_nb.numerics.decoder_search import decoder_from_har
    from kokoro_nb.numerics.trace_cost import trace_cost

    decoder = decoder_from_har(arguments.weights, frames=arguments.frames)
    rows = trace_cost(decoder.exported, decoder.inputs, arguments.backends, arguments.calls)
    print(f"decoder from har, {arguments.frames} frames, weights {decoder.label}")
    _print([row.as_dict() for row in rows])
    return 0


def _run(arguments: argparse.Namespace) -> int:
    out = _out(arguments)
    outcomes = _execute(arguments, out)
    print(f"Executed notebooks: {out / 'run'}")
    return int(any(outcome.run.status != "passed" for outcome in outcomes))


def _report(arguments: argparse.Namespace) -> int:
    from kokoro_nb.reporting.html import render_report
    from kokoro_nb.reporting.runs import read_runs

    out = _out(arguments)
    if not arguments.render_only:
        _execute(arguments, out)
    elif arguments.notebooks or arguments.parameters or arguments.fresh:
        raise InputError("--render-only runs nothing; leave out the notebooks, -p and --fresh.")
    print(f"Report: {render_report(out / 'run', out / 'report')}")
    return int(any(run.status != "passed" for run in read_runs(out / "run")))


def _execute(arguments: argparse.Namespace, out: Path) -> "list[Outcome]":
    from kokoro_nb.reporting.execute import run_notebooks
    from kokoro_nb.reporting.selection import parse_value

    parameters: dict[str, Any] = {name: parse_value(value) for name, value in arguments.parameters}
    return run_notebooks(arguments.notebooks, parameters, arguments.jobs, out / "run", arguments.fresh)


def _out(arguments: argparse.Namespace) -> Path:
    from kokoro_nb.reporting.selection import notebooks_folder

    return arguments.out.resolve() if arguments.out else notebooks_folder().parent / "outputs"


if __name__ == "__main__":
    sys.exit(main())
