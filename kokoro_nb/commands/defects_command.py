"""kokoro-nb defects: which known defects the installed versions have, and reports of them."""

import argparse
import sys
from pathlib import Path
from typing import Any

from kokoro_nb.commands import give, subcommand
from kokoro_nb.markup import table


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    defects = subcommand(commands, "defects", _defects, "known defects of the installed versions")
    defects.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of defects (default: all)")
    defects.add_argument("--reports", type=Path, metavar="DIR", help="write a report for each that is there")


def _defects(arguments: argparse.Namespace) -> int:
    from kokoro_nb.defects import DEFECTS, defect, measure
    from kokoro_nb.defects.defect_script import STATE, brief, write_reports
    from kokoro_nb.storage import require_own

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
