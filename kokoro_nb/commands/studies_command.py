"""kokoro-nb repair, validate-steps, study: the decoder on one backend."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_nb.commands import corpus_command, inspection_corpus_command
from kokoro_nb.commands.quiet import import_models
from kokoro_nb.storage import cache_dir, json_ready

if TYPE_CHECKING:
    from kokoro.model import KModel

    from kokoro_nb.models.case import Case

STUDIED = 8  # frames: the operators are those of any length, and 200 programs are to be compiled


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
    repair = commands.add_parser("repair", help="find the fewest patches that the decoder's export needs")
    repair.set_defaults(command=_repair)
    steps = commands.add_parser("validate-steps", help="check the whole pipeline step by step on a backend")
    steps.add_argument(
        "--reference", default="eager-float64", metavar="R", help="what is right (default: eager-float64)"
    )
    steps.add_argument("--tokens", type=int, metavar="N", help="pad the tokens to so many")
    steps.set_defaults(command=_validate_steps)
    for command in (repair, steps):
        command.add_argument("--limit", type=float, default=1e-3, help="largest error, of the peak (default: 0.001)")
        command.add_argument("--backend", required=True, metavar="B", help="doctor lists them")
        command.add_argument("--weights", default="narrow", metavar="W", help="as in the notebooks (default: narrow)")
        command.add_argument("--seed", type=int, default=0, help="of random weights and of the noise (default: 0)")
        command.add_argument("--text", default="Hello world, this is a test.", help="what is spoken")
        command.add_argument("--frames", type=int, default=8, help="length, 40 to the second (default: 8)")
        command.add_argument("--json", action="store_true", help="as JSON")

    study = commands.add_parser("study", help="count how often what is wrong with an export is named")
    study.add_argument(
        "which",
        nargs="?",
        choices=("faults", "diagnosis", "inspection"),
        default="faults",
        help="faults: planted ones (default); diagnosis: exports that are really sick, and healthy ones; inspection: "
        "model files",
    )
    study.add_argument("--backends", nargs="+", default=["eager"], metavar="B", help="which to look into")
    study.add_argument("--weights", default="narrow", metavar="W", help="as in the notebooks (default: narrow)")
    study.add_argument("--faults", type=int, default=200, metavar="N", help="how many (default: 200)")
    study.add_argument("--seed", type=int, default=0, help="draws the faults (default: 0)")
    study.add_argument("--together", type=int, default=1, metavar="N", help="faults in one program (default: 1)")
    study.add_argument("--out", type=Path, metavar="DIR", help="where the rows are kept (default: in the cache)")
    corpus_command.add_options(study)
    inspection_corpus_command.add_options(study)
    study.set_defaults(command=_study)


def _repair(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.studies.repair.smallest_set import repair

    model, case = _captured(arguments)
    found = repair(model, case, arguments.backend, arguments.frames, limit=arguments.limit)
    _print([found.as_dict(), *found.proof()], found.as_json() if arguments.json else None)
    return int(found.verdict == "fail")


def _validate_steps(arguments: argparse.Namespace) -> int:
    import_models()
    from kokoro_nb.studies.validate_steps.step_rows import first_wrong
    from kokoro_nb.studies.validate_steps.validation import validate_steps

    model, case = _captured(arguments)
    frames, tokens = arguments.frames, arguments.tokens
    steps = validate_steps(model, case, arguments.backend, arguments.reference, frames, tokens)
    rows = [step.as_dict() for step in steps]
    _print(rows, rows if arguments.json else None)
    return int(first_wrong(steps, arguments.limit) is not None)


def _study(arguments: argparse.Namespace) -> int:
    import_models()
    if arguments.which == "diagnosis":
        return corpus_command.run(arguments)
    if arguments.which == "inspection":
        return inspection_corpus_command.run(arguments)
    from kokoro_nb.faults import generate
    from kokoro_nb.studies.decoder import spoken_decoder
    from kokoro_nb.studies.localisation import study, summarise

    _, decoder = spoken_decoder(arguments.weights, frames=STUDIED)
    faults = generate(decoder.specification, arguments.faults, arguments.seed)
    folder = arguments.out or cache_dir() / "study"
    rows = study(faults, arguments.backends, decoder, folder, together=arguments.together)
    _print(summarise(rows))
    return 0


def _captured(arguments: argparse.Namespace) -> "tuple[KModel, Case]":
    from kokoro_nb.backends.base import quietly
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model

    with quietly():
        kokoro = load_model(arguments.weights, arguments.seed)
        return kokoro.model, capture(kokoro, arguments.text, seed=arguments.seed)


def _print(rows: Sequence[Mapping[str, Any]], whole: object | None = None) -> None:
    """Print `whole` as JSON, or without it a line for each row."""
    if whole is not None:
        print(json.dumps(json_ready(whole), indent=2))
        return
    for row in rows:
        values = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values())
        print("; ".join(f"{key} {value}" for key, value in zip(row, values, strict=True)))
