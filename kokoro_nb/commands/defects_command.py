"""kokoro-nb defects: which known defects the installed versions have, beside other versions, and reports of them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_nb.commands.json_file import add_json, give
from kokoro_nb.markup import table
from kokoro_nb.traces.record import headed

if TYPE_CHECKING:
    from kokoro_nb.defects.environments import ComparedDefect


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    defects = commands.add_parser("defects", help="known defects of the installed versions, and of others")
    defects.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of defects (default: all)")
    text = "interpreter of another environment; repeatable"
    defects.add_argument("--python", action="append", default=[], metavar="P", help=text)
    text = "write a report for each that stands in the newest versions"
    defects.add_argument("--reports", type=Path, metavar="DIR", help=text)
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
    about = {"defects": [each.as_dict() for each in compared]}
    give(_text(compared), lambda: headed("defects/1", **about), arguments.json)
    if arguments.reports:
        written = write_reports(compared, arguments.reports)
        print(f"{arguments.reports}: {len(written)} reports, and {STATE}", file=sys.stderr)
    return 0


def _text(compared: "Sequence[ComparedDefect]") -> str:
    places = [f"{n}: {place.python}, Python {place.version}" for n, place in enumerate(compared[0].environments, 1)]
    rows, reasons = [], []
    for each in compared:
        row = {"defect": each.defect.name}
        for n, (label, one) in enumerate(zip(each.labels(), each.outcomes, strict=True), 1):
            row[f"{n}: version, state"] = f"{label or '-'} {one.outcome}"
            reasons += [f"{each.defect.name} in {n}, {one.outcome}: {one.reason}"] if one.reason else []
        rows.append({**row, "advice": each.advice})
    return "\n".join([*places, table(rows).text, *reasons])
