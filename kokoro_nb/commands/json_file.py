"""``--json [FILE]`` of the verbs whose results are records: see `kokoro_nb.traces.record`."""

import argparse
import json
from typing import Any

from kokoro_nb.storage import json_ready, write_json

PRINTED = "-"


def add_json(command: argparse.ArgumentParser) -> None:
    """Add the option to a subcommand."""
    command.add_argument(
        "--json",
        nargs="?",
        const=PRINTED,
        type=_file,
        metavar="FILE.json",
        help="write the result as JSON, which `kokoro-nb compare` reads; without FILE it is printed",
    )


def _file(text: str) -> str:
    if text != PRINTED and not text.endswith(".json"):  # what comes next on the line is no file for the result
        raise argparse.ArgumentTypeError(f"'{text}' is no .json file; name one, or put --json last")
    return text


def give_json(record: Any, where: str) -> None:
    """Write a record to the file that the option named, or print it."""
    if where == PRINTED:
        print(json.dumps(json_ready(record), indent=2))
    else:
        write_json(where, record)
