"""``--json [FILE]`` of the verbs whose results are records: see `kokoro_nb.traces.record`."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from kokoro_nb.cache_keys import untested_versions
from kokoro_nb.storage import json_ready, write_json

PRINTED = "-"


def add_json(command: argparse.ArgumentParser) -> None:
    """Add the option to a subcommand."""
    text = "write the result as JSON with a schema; without FILE it is printed"
    command.add_argument("--json", nargs="?", const=PRINTED, type=_file, metavar="FILE.json", help=text)


def _file(text: str) -> str:
    if text != PRINTED and not text.endswith(".json"):  # what comes next on the line is no file for the result
        raise argparse.ArgumentTypeError(f"'{text}' is no .json file; name one, or put --json last")
    return text


def give(text: Any, record: Callable[[], Any], where: str | None) -> None:
    """Print what was found, or its record alone, and write that to the file that the option named; notes are apart."""
    if where == PRINTED:
        text = json.dumps(json_ready(record()), indent=2)
    elif where:
        write_json(where, record())
    for note in untested_versions():
        print(f"note: {note}", file=sys.stderr)
    print(text)
