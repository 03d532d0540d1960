"""kokoro-nb weights: which keys of a checkpoint were used, are missing, left over or of another shape."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kokoro_nb.commands import import_models

if TYPE_CHECKING:
    from kokoro_nb.models.kokoro import Kokoro


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    weights = commands.add_parser("weights", help="account for every key of a checkpoint")
    weights.add_argument("weights", metavar="W", help="a folder, a .pth or .safetensors file, or a hub id")
    weights.add_argument("--json", action="store_true", help="every key by name, as JSON")
    weights.set_defaults(command=_weights)


def _weights(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.models.loading import LoadingError

    try:
        kokoro = load_model(arguments.weights)
    except LoadingError as error:  # main says the sentence
        _show(error.report, None, as_json=arguments.json)
        raise
    _show(kokoro.loading, kokoro, as_json=arguments.json)
    return 0


def _show(report: Any, kokoro: "Kokoro | None", *, as_json: bool) -> None:
    label = kokoro.weights.label if kokoro else ""
    if as_json:
        print(json.dumps({"weights": label, "fits": bool(kokoro), "loading": report and asdict(report)}, indent=2))
        return
    if kokoro:
        print(label, f"{len(kokoro.model.vocab)} phonemes; voice where none is named: {kokoro.default_voice}", sep="\n")
    for row in report.rows() if report else ():
        print(f"{row['keys']}: {row['how many']} ({row['which']})")
    if report:
        print(f"stored as {', '.join(report.dtypes)}")
