"""kokoro-nb study clients: each client on each dtype, a line as soon as it has spoken."""

import argparse
import json
from typing import Any

from kokoro_nb.storage import cache_dir, json_ready


def add_options(study: argparse.ArgumentParser) -> None:
    """Add the options that ``clients`` alone takes."""
    group = study.add_argument_group("of clients")
    group.add_argument("--clients", nargs="+", metavar="CLIENT", help="as after `deliver --for` (default: all)")
    group.add_argument("--dtypes", nargs="+", metavar="D", help="of float32, float16, int8 (default: all)")


def run(arguments: argparse.Namespace) -> int:
    """Deliver to the clients and have them speak; return 1 if one fails."""
    from kokoro_nb.delivery.clients.client_contract import STORED
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.studies.clients import client_table
    from kokoro_nb.studies.clients.table import NAMES

    kokoro, rows = load_model(arguments.weights, arguments.seed), []
    folder = arguments.out or cache_dir() / "clients"
    for row in client_table(kokoro, folder, arguments.clients or NAMES, arguments.dtypes or STORED):
        rows.append(row)
        if not arguments.json:
            print("; ".join(f"{key} {_shown(value)}" for key, value in row.as_dict().items()), flush=True)
    if arguments.json:
        print(json.dumps(json_ready([row.as_dict() for row in rows]), indent=2))
    return int(any(row.verdict == "fail" for row in rows))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
