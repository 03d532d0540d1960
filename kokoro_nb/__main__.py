"""The command line: `kokoro-nb --help` lists what there is."""

import argparse
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from kokoro_nb.cache_keys import package_versions
from kokoro_nb.errors import InputError, Terminated, absent_package, one_line, signals_handled
from kokoro_nb.known_warnings import silence_known_warnings

EPILOG = """\
example: kokoro-nb diagnose vocoder.py:example --backend onnxruntime
exit status: 0 passed, 1 a check failed or an operator is wrong, 2 bad input, 3 not localised, 4 a fault of kokoro_nb
itself, 130 or 143 stopped
"""
COMMANDS = "diagnose_command notebooks studies_command speech_command"


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; those of the process by default.
    """
    silence_known_warnings()
    try:
        arguments = _parser().parse_args(argv)
        # one that is ignored, as under nohup, stays so
        heard = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) == signal.SIG_DFL]
        with signals_handled(heard, _stop):
            return arguments.command(arguments)
    except Terminated as stop:
        print(f"kokoro-nb: {stop}; the same command goes on from here.", file=sys.stderr)
        return 128 + stop.number
    except KeyboardInterrupt:
        print("kokoro-nb: interrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads what is printed, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        said = error if isinstance(error, InputError) else absent_package(error)
        if said:
            print(f"kokoro-nb: {said}", file=sys.stderr)
            return 2
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"kokoro-nb: {one_line(error)}, at {Path(place.filename).name}:{place.lineno}: a fault of kokoro_nb "
            "itself; report it with the command and, if you can, the files.",
            file=sys.stderr,
        )
        return 4


def _stop(number: int, _: object) -> NoReturn:
    """Let a request to end interrupt what is done, as Ctrl-C does."""
    raise Terminated(number)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one sentence, as of every other bad input."""
        raise InputError(f"{message}; see {self.prog} --help.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kokoro-nb",
        description="Take a speech model apart, export it, and see exactly where and why an export goes wrong.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = package_versions(["kokoro_nb"])["kokoro_nb"]
    parser.add_argument("--version", action="version", version=f"kokoro-nb {version}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command [options]")

    for name in COMMANDS.split():
        import_module(f"kokoro_nb.commands.{name}").add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
