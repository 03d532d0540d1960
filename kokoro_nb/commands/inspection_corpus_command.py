"""kokoro-nb study inspection: the corpora of files, a line for each as soon as it is inspected."""

import argparse
import json
from typing import Any

from kokoro_nb.storage import json_ready


def add_options(study: argparse.ArgumentParser) -> None:
    """Add the option that ``inspection`` alone takes."""
    group = study.add_argument_group("of inspection")
    group.add_argument(
        "--of",
        nargs="+",
        choices=("zoo", "faults", "blame", "corrupted", "oracle", "budget", "foresight"),
        default=("zoo", "faults", "blame", "corrupted"),
        metavar="CORPUS",
        help="zoo: healthy files of every form; faults: planted ones; blame: files of which it is known who is "
        "to blame; corrupted: damaged ones (default: these four); oracle: operators beside onnx's own node tests; "
        "budget: quantised layers beside the float files; foresight: float16 foreseen beside float16 run",
    )


def run(arguments: argparse.Namespace) -> int:
    """Inspect the corpora, and return 1 if a file is not judged as it has to be."""
    from kokoro_nb.studies.inspection_corpus import run_corpus, summed, table_row

    def show(row: Any) -> None:
        if not arguments.json:
            values = "; ".join(
                f"{key} {value}" for key, value in table_row(row).items() if key not in ("case", "sound")
            )
            print(f"{'ok' if row.sound else 'WRONG'} {row.case}: {values}", flush=True)

    rows = {one: run_corpus(one, arguments.only, arguments.out, show) for one in arguments.of}
    if arguments.json:
        answer = {one: {"rows": list(map(table_row, found)), "sum": summed(found)} for one, found in rows.items()}
        print(json.dumps(json_ready(answer), indent=2))
    else:
        for one, found in rows.items():
            for total in summed(found):
                print(f"{one}: {', '.join(f'{key} {value}' for key, value in total.items())}")
    return int(not all(row.sound for found in rows.values() for row in found))
