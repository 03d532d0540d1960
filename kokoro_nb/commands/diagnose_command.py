"""kokoro-nb diagnose: name the operators of an export that are wrong."""

import argparse
import json
from pathlib import Path
from typing import Any

STATUS = {"pass": 0, "fail": 1, "unknown": 3}
EPILOG = """\
Each operator that the runtime shows is recomputed in float64 on its own inputs; the ratio is its error over the
rounding error of that operator: above 1 it is wrong. Where a delegate hides its operators, parts are compiled alone.

exit status: 0 no operator is wrong, 1 wrong operators are named, 2 bad input, 3 neither healthy nor localised
"""


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    diagnose = commands.add_parser(
        "diagnose",
        help="name the wrong operators of an export",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diagnose.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="file.py:function or package.module:function that returns a module and example inputs by name "
        "(default: Kokoro's decoder)",
    )
    diagnose.add_argument("--backend", required=True, metavar="B", help="a runtime of this machine; doctor lists them")
    diagnose.add_argument("--weights", default="narrow", metavar="W", help="of Kokoro (default: narrow)")
    diagnose.add_argument("--seed", type=int, default=0, help="of random weights and of the noise (default: 0)")
    diagnose.add_argument("--text", default="Hello world, this is a test.", help="that Kokoro speaks")
    diagnose.add_argument("--frames", type=int, default=24, help="length, 40 to the second (default: 24)")
    diagnose.add_argument(
        "--precision", default="float32", metavar="P", help="of the reference: float32 or float64 (default: float32)"
    )
    diagnose.add_argument(
        "--method", default="auto", choices=("auto", "tracing", "bisection"), metavar="M", help="tracing or bisection"
    )
    diagnose.add_argument("--fault", action="append", default=[], metavar="SPEC", help="plant kind/seed@operator first")
    diagnose.add_argument("--json", action="store_true", help="as JSON")
    diagnose.add_argument("--page", type=Path, metavar="FILE", help="write the diagnosis as an HTML page")
    diagnose.add_argument("--bundle", type=Path, metavar="DIR", help="write what reproduces the culprit alone")
    diagnose.set_defaults(command=_diagnose)


def _diagnose(arguments: argparse.Namespace) -> int:
    from kokoro_nb.commands.quiet import import_models

    import_models()
    from kokoro_nb.backends import backend
    from kokoro_nb.backends.base import running
    from kokoro_nb.locate import diagnose
    from kokoro_nb.studies.diagnosed_program import kokoro_decoder, own_module

    running(backend(arguments.backend))  # before anything takes time
    given = arguments
    if given.target:
        target = own_module(given.target, given.fault)
    else:
        target = kokoro_decoder(given.weights, given.seed, given.text, given.frames, given.fault)
    search = (target.inputs, given.backend, target.healthy, given.method, given.precision)
    found = diagnose(target.candidate, *search)
    if arguments.page:
        found.page(arguments.page)
    if arguments.bundle and found.first is not None:
        found.bundle(arguments.bundle)
    if arguments.json:
        print(json.dumps({"target": target.label, "planted": arguments.fault, **found.as_dict()}, indent=2))
    else:
        print("\n".join([target.label, *(f"planted: {fault}" for fault in arguments.fault), str(found)]))
    return STATUS[found.verdict] if found.culprits or found.verdict == "pass" else 3
