"""kokoro-nb study diagnosis: the corpora of sick and healthy exports, a line for each as soon as it is diagnosed."""

import argparse
import json

from kokoro_nb.storage import json_ready


def add_options(study: argparse.ArgumentParser) -> None:
    """Add the options that ``diagnosis`` alone takes."""
    group = study.add_argument_group("of diagnosis")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--sick", action="store_true", help="the sick exports alone")
    which.add_argument("--healthy", action="store_true", help="the healthy exports alone")
    group.add_argument("--only", nargs="+", default=[], metavar="NAME", help="those whose names have one of these in")
    group.add_argument("--seeds", nargs="+", type=int, default=None, metavar="S", help="of weights (default: 0 1)")
    group.add_argument("--json", action="store_true", help="as JSON, at the end")


def run(arguments: argparse.Namespace) -> int:
    """Diagnose the corpora, and return 1 if a row is not as it has to be."""
    from kokoro_nb.studies.diagnosis_corpus import SEEDS, HealthyRow, SickRow, run_corpus, table_row
    from kokoro_nb.studies.diagnosis_corpus.corpus_rows import Kind

    def show(row: SickRow | HealthyRow) -> None:
        if arguments.json:
            return
        if isinstance(row, SickRow):
            found = [f"{what} {'yes' if there else 'NO'}" for what, there in _found(row)]
            said = [f"{row.named}: {row.because}", *([f"cured by {row.cured_by}"] if row.cured_by else [])]
        else:
            found, said = [row.verdict], [row.reason] if row.reason else []
        print("; ".join([f"{row.case} seed {row.seed}", *found, f"{row.seconds:.1f} s", *said]), flush=True)

    kinds: tuple[Kind, ...] = (
        ("sick",) if arguments.sick else ("healthy",) if arguments.healthy else ("sick", "healthy")
    )
    rows: list[SickRow | HealthyRow] = []
    for kind in kinds:
        rows += run_corpus(kind, arguments.seeds or SEEDS, arguments.only, arguments.out, show)
    if arguments.json:
        print(json.dumps(json_ready([{**table_row(row), "sound": row.sound} for row in rows]), indent=2))
    else:
        print(f"{sum(row.sound for row in rows)} of {len(rows)} as they have to be")
    return int(not all(row.sound for row in rows))


def _found(row: object) -> list[tuple[str, bool]]:
    return [(name, getattr(row, name)) for name in ("culprit", "mechanism", "remedy")]
