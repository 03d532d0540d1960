"""kokoro-nb repair, validate-steps: the decoder on one backend."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kokoro_nb.commands import give, import_models, subcommand

if TYPE_CHECKING:
    from kokoro.model import KModel

    from kokoro_nb.models.case import Case


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
    repair = subcommand(commands, "repair", _repair, "find the fewest patches that the decoder's export needs")
    text = "check the whole pipeline step by step on a backend"
    steps = subcommand(commands, "validate-steps", _validate_steps, text)
    steps.add_argument("--reference", default="eager-float64", metavar="R", help="(default: eager-float64)")
    steps.add_argument("--tokens", type=int, metavar="N", help="pad the tokens to so many")
    for command in (repair, steps):
        command.add_argument("--limit", type=float, default=1e-3, help="largest error, of the peak (default: 0.001)")
        command.add_argument("--backend", required=True, metavar="B", help="doctor lists them")
        command.add_argument("--weights", default="narrow", metavar="W", help="as in the notebooks (default: narrow)")
        command.add_argument("--seed", type=int, default=0, help="of random weights and of the noise (default: 0)")
        command.add_argument("--text", default="Hello world, this is a test.", help="what is spoken")
        command.add_argument("--frames", type=int, default=8, help="length, 40 to the second (default: 8)")


def _repair(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.studies.repair.smallest_set import repair

    model, case = _captured(arguments)
    found = repair(model, case, arguments.backend, arguments.frames, limit=arguments.limit)
    give(_text([found.as_dict(), *found.proof()]), arguments.json, "repair/1", **found.as_json())
    return int(found.verdict == "fail")


def _validate_steps(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.studies.validate_steps.step_rows import first_wrong
    from kokoro_nb.studies.validate_steps.validation import validate_steps

    model, case = _captured(arguments)
    steps = validate_steps(model, case, arguments.backend, arguments.reference, arguments.frames, arguments.tokens)
    rows = [step.as_dict() for step in steps]
    give(_text(rows), arguments.json, "validate-steps/1", steps=rows)
    return int(first_wrong(steps, arguments.limit) is not None)


def _captured(arguments: argparse.Namespace) -> "tuple[KModel, Case]":
    from kokoro_nb.backends.base import quietly
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model

    with quietly():
        kokoro = load_model(arguments.weights, arguments.seed)
        return kokoro.model, capture(kokoro, arguments.text, seed=arguments.seed)


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each row."""
    short = ({key: f"{one:.3g}" if isinstance(one, float) else one for key, one in row.items()} for row in rows)
    return "\n".join("; ".join(f"{key} {value}" for key, value in row.items()) for row in short)
