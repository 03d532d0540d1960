"""kokoro-nb defects: which known defects the installed versions have, beside other versions, and reports of them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_nb.commands.json_file import PRINTED, add_json, give_json
from kokoro_nb.traces.record import headed

if TYPE_CHECKING:
    from kokoro_nb.defects.environments import ComparedDefect


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    defects = commands.add_parser("defects", help="known defects of the installed versions, and of others")
    defects.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of defects (default: all)")
    defects.add_argument(
        "--python", action="append", default=[], metavar="P", help="interpreter of another environment; repeatable"
    )
    defects.add_argument(
        "--reports", type=Path, metavar="DIR", help="write a report for each that stands in the newest versions"
    )
    add_json(defects)
    defects.set_defaults(command=_defects)


def _defects(arguments: argparse.Namespace) -> int:
    from kokoro_nb.defects import DEFECTS, defect
    from kokoro_nb.defects.environments import compare_environments, environment
    from kokoro_nb.defects.upstream_reports import STATE, write_reports
    from kokoro_nb.storage import require_own

    chosen = [each for each in DEFECTS if not arguments.names or any(part in each.name for part in arguments.names)]
    chosen = chosen or [defect(arguments.names[0])]
    if arguments.reports:
        require_own(arguments.reports, STATE, "reports", "folder")  # before minutes of work
    environments = [environment(python) for python in (sys.executable, *arguments.python)]
    compared = compare_environments(chosen, environments, lambda sentence: print(sentence, file=sys.stderr, flush=True))
    if arguments.json:
        give_json(headed("defects", defects=[each.as_dict() for each in compared]), arguments.json)
    if arguments.json != PRINTED:
        _print(compared)
    if arguments.reports:
        written = write_reports(compared, arguments.reports)
        print(f"{arguments.reports}: {len(written)} reports, and {STATE}", file=sys.stderr)
    return 0


def _print(compared: "Sequence[ComparedDefect]") -> None:
    places = compared[0].environments
    for number, place in enumerate(places, 1):
        print(f"{number}: {place.python}, Python {place.version}, {place.system}")
    heads = ["defect", *(f"{number}: version, state" for number in range(1, len(places) + 1)), "advice"]
    rows = [
        [
            each.defect.name,
            *(f"{label or '-'} {one.outcome}" for label, one in zip(each.labels(), each.outcomes, strict=True)),
            each.advice,
        ]
        for each in compared
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for each in compared:
        for number, one in enumerate(each.outcomes, 1):
            if one.reason:
                print(f"{each.defect.name} in {number}, {one.outcome}: {one.reason}")
