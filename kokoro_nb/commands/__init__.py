"""The command line: a module for the subcommands of each subject, and what several of them import."""

import argparse
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from kokoro_nb.cache_keys import untested_versions
from kokoro_nb.storage import json_ready, write_json

PRINTED = "-"


def subcommand(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str, record: bool = True, **more: Any
) -> argparse.ArgumentParser:
    """Add a subcommand and return it, for its arguments.

    Parameters
    ----------
    commands : object
        What `ArgumentParser.add_subparsers` returned.
    name, text : str
        What it is called, and what it does.
    run : callable
        Does it, and returns the exit status.
    record : bool
        Whether its result is a record, which ``--json`` writes.
    **more
        For `ArgumentParser`; lines of an epilog stay as they are.
    """
    form = argparse.RawDescriptionHelpFormatter
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, formatter_class=form, **more)
    command.set_defaults(command=run)
    if record:
        text = "write the result as JSON with a schema; without FILE it is printed"
        command.add_argument("--json", nargs="?", const=PRINTED, type=_file, metavar="FILE.json", help=text)
    return command


def add_model(command: argparse.ArgumentParser, weights: str, frames: int = 0) -> None:
    """Add the options of Kokoro's model; with a number of frames by default also those of its decoder on a backend."""
    option = command.add_argument
    option("--weights", default=weights, metavar="W", help=f"as in the notebooks (default: {weights})")
    option("--seed", type=int, default=0, help="of random weights and of the noise (default: 0)")
    if frames:
        option("--backend", required=True, metavar="B", help="a runtime of this machine; doctor lists them")
        option("--text", default="Hello world, this is a test.", help="that Kokoro speaks")
        option("--frames", type=int, default=frames, help=f"length, 40 to the second (default: {frames})")


def _file(text: str) -> str:
    if text != PRINTED and not text.endswith(".json"):  # what comes next on the line is no file for the result
        raise argparse.ArgumentTypeError(f"'{text}' is no .json file; name one, or put --json last")
    return text


def give(text: Any, where: str | None, schema: str, **about: Any) -> None:
    """Print what was found, or its record alone: see `give_record` and `kokoro_nb.traces.record.headed`."""
    from kokoro_nb.traces.record import headed

    give_record(text, where, lambda: headed(schema, **about))


def give_record(text: Any, where: str | None, record: Callable[[], Any]) -> None:
    """Print what was found, or its record alone, and write that to the file that the option named; notes are apart."""
    if where == PRINTED:
        text = json.dumps(json_ready(record()), indent=2)
    elif where:
        write_json(where, record())
    for note in untested_versions():
        print(f"note: {note}", file=sys.stderr)
    print(text)


def import_models() -> None:
    """Import the models' packages, which print while they are imported; nothing where Kokoro's is not installed."""
    from kokoro_nb.backends.base import quietly

    if find_spec("kokoro") is None:
        return
    with quietly():
        import kokoro_nb.models.kokoro  # noqa: F401
