"""kokoro-nb weights: which keys of a checkpoint were used, are missing, left over or of another shape."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kokoro_nb.commands import give, import_models, subcommand

if TYPE_CHECKING:
    from kokoro_nb.models.kokoro import Kokoro


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    weights = subcommand(commands, "weights", _weights, "account for every key of a checkpoint")
    weights.add_argument("weights", metavar="W", help="a folder, a .pth or .safetensors file, or a hub id")


def _weights(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.models.loading import LoadingError

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
