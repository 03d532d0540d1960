"""kokoro-nb repair, validate-steps, weights: the decoder on one backend, and what is loaded of a checkpoint."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kokoro_nb.commands import add_model, give, import_models, subcommand

if TYPE_CHECKING:
    from kokoro.model import KModel

    from kokoro_nb.models.case import Case
    from kokoro_nb.models.kokoro import Kokoro


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
    repair = subcommand(commands, "repair", _repair, "find the fewest patches that the decoder's export needs")
    text = "check the whole pipeline step by step on a backend"
    steps = subcommand(commands, "validate-steps", _validate_steps, text)
    steps.add_argument("--reference", default="eager-float64", metavar="R", help="(default: eager-float64)")
    steps.add_argument("--tokens", type=int, metavar="N", help="pad the tokens to so many")
    for command in (repair, steps):
        command.add_argument("--limit", type=float, default=1e-3, help="largest error, of the peak (default: 0.001)")
        add_model(command, "narrow", 8)
    weights = subcommand(commands, "weights", _weights, "account for every key of a checkpoint")
    weights.add_argument("weights", metavar="W", help="a folder, a .pth or .safetensors file, or a hub id")


def _repair(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.studies.repair import repair

    model, case = _captured(arguments)
    found = repair(model, case, arguments.backend, arguments.frames, limit=arguments.limit)
    give(_text([found.as_dict(), *found.proof()]), arguments.json, "repair/1", **found.as_json())
    return int(found.verdict == "fail")


def _validate_steps(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.studies.validate_steps import first_wrong, validate_steps

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


def _weights(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.models.weights import LoadingError

    try:
        kokoro = load_model(arguments.weights)
    except LoadingError as error:  # main says the sentence
        _show(error.report, None, arguments.json)
        raise
    _show(kokoro.loading, kokoro, arguments.json)
    return 0


def _show(report: Any, kokoro: "Kokoro | None", where: str | None) -> None:
    about = {"weights": kokoro.weights.label if kokoro else "", "fits": bool(kokoro)}
    lines = []
    if kokoro:
        voice = f"voice where none is named: {kokoro.default_voice}"
        lines = [kokoro.weights.label, f"{len(kokoro.model.vocab)} phonemes; {voice}"]
    if report:
        lines += [f"{row['keys']}: {row['how many']} ({row['which']})" for row in report.rows()]
        lines += [f"stored as {', '.join(report.dtypes)}"]
    give("\n".join(lines), where, "weights/1", **about, loading=report and asdict(report))
