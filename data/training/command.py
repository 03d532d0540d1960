"""What the command lines of training share: the options of a run, its beginning or resuming, and its end."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.storage import cache_dir, require_own
from training.model_card import CARD
from training.trainer import TrainingRun, load_checkpoint, train


def run_parser(module: str, description: str, name: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every run has; those named like a setting are that setting.

    Parameters
    ----------
    module : str
        What stands behind ``python -m``.
    description : str
        Docstring of that module; its first line is shown.
    name : str
        What is trained: ``voice`` or ``ear``; also the run's default folder.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description.split("\n")[0])
    parser.add_argument("--out", type=Path, default=cache_dir() / "training" / name, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    parser.add_argument(
        "--export", type=Path, metavar="FOLDER", help=f"write the run's {name} there instead of training"
    )
    parser.add_argument("--steps", type=int, help="length of the run; with --resume a new length")
    parser.add_argument("--rate", type=float, help="highest learning rate")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--float32", dest="bfloat16", action="store_false", default=None)
    return parser


def carry_out(
    options: argparse.Namespace, defaults: Any, make: Callable[[Any], TrainingRun], export: Callable[[Path, Path], Path]
) -> None:
    """Export the run's weights if `options` say so, else train, anew or from the folder's checkpoint; say how it ended.

    Parameters
    ----------
    options : argparse.Namespace
        What a parser of `run_parser` read.
    defaults : dataclass instance
        The run's settings; the checkpoint's take precedence, and before those what `options` name.
    make : callable
        Settings -> run, at step 0.
    export : callable
        Folder of the run, folder to write -> what was written.

    Raises
    ------
    InputError
        If the folder holds a run and ``--resume`` was not given, or the reverse.
    """
    if options.export:
        require_own(options.export, CARD, "exported weights", "--export")
        print(f"wrote {export(options.out, options.export)}")
        return
    names = [field.name for field in fields(defaults)]
    given = {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}
    state = load_checkpoint(options.out) if options.resume else None
    if state is None and (options.out / "checkpoint.pt").exists():
        raise InputError(f"{options.out} holds a run already; go on with --resume, or choose another --out.")
    trainer = make(replace(defaults, **((state["settings"] if state else {}) | given)))
    if state:
        trainer.restore(state)
    done = train(trainer, options.out)
    print(f"{'finished' if done else 'stopped'} at step {trainer.step} after {trainer.seconds / 60:.1f} min")


def exit_with(main: Callable[[], None]) -> None:
    """Run a command line; bad input is one sentence and exit status 2."""
    try:
        main()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
