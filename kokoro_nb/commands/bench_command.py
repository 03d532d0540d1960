"""kokoro-nb bench: how fast, how far from the floor, where time goes; what patches bring, looking and waiting cost."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PARTS = (
    *("exports", "floor", "families", "changes", "fewer"),
    *("precisions", "hearing", "looking", "locating", "waiting"),
)  # those of benchmarks.suite
FOLDER = Path("outputs") / "bench"
IMPORTED = (
    *("kokoro_nb.models.kokoro", "kokoro_nb.models.stages", "kokoro_nb.models.case"),
    *("kokoro_nb.locate", "kokoro_nb.reporting.logbook", "kokoro_nb.reporting.explorer"),
)  # by most notebooks


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    bench = commands.add_parser("bench", help="measure exports, and what looking costs")
    bench.add_argument(
        "--what", nargs="+", choices=PARTS, default=list(PARTS[:3]), metavar="PART", help=f"some of {', '.join(PARTS)}"
    )
    bench.add_argument("--backends", nargs="+", metavar="B", help="doctor lists them (default: all that run here)")
    bench.add_argument("--weights", default="mini", metavar="W", help="as in the notebooks (default: mini)")
    bench.add_argument("--seconds", type=float, nargs="+", default=[1.0, 3.0], metavar="S", help="of audio (1 3)")
    bench.add_argument("--rounds", type=int, default=7, help="each program once in every round (default: 7)")
    bench.add_argument("--limit", type=float, default=60.0, help="seconds for one program in all (default: 60)")
    bench.add_argument("--phrases", type=int, default=50, metavar="N", help="of hearing (default: 50, all)")
    bench.add_argument("--tokens", type=int, default=256, metavar="N", help="room of the first stage (default: 256)")
    bench.add_argument("--seed", type=int, default=0, help="of random weights and of the noise (default: 0)")
    bench.add_argument("--against", type=Path, metavar="FILE", help="hold it against a stored result")
    bench.add_argument(
        "--out", type=Path, metavar="DIR", help="where results go (default: the project's outputs/bench)"
    )
    bench.add_argument("--json", action="store_true", help="as JSON")
    bench.set_defaults(command=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    from kokoro_nb.backends.base import quietly
    from kokoro_nb.benchmarks import stored_results

    with quietly():
        from kokoro_nb.benchmarks.suite import Asked, run
    from kokoro_nb.reporting.versions import commit, project_folder, versions

    then = stored_results.load(arguments.against) if arguments.against else None
    what = ("weights", "backends", "rounds", "limit", "seed", "phrases", "tokens")
    given = {name: getattr(arguments, name) for name in what}
    label, sections = run(Asked(arguments.what, lengths=arguments.seconds, modules=IMPORTED, **given))
    parameters = {"what": arguments.what, "seconds": arguments.seconds, **given}
    result = stored_results.record(label, parameters, versions(), commit(), **sections)
    path = stored_results.save(result, arguments.out or (project_folder() or Path.cwd()) / FOLDER)
    if then is not None:
        result |= {
            "against": {
                "rows": stored_results.against(result, then),
                "differences": stored_results.differences(result, then),
            }
        }
    print(json.dumps(result, indent=2) if arguments.json else _told(result, path))
    return 0


def _told(result: Mapping[str, Any], path: Path) -> str:
    from kokoro_nb.benchmarks.suite import tables

    machine = result["machine"]
    lines = [f"{machine['processor']}, {machine['cores']} cores; weights {result['weights']}"]
    for caption, rows in tables(result, result["parameters"]["what"]):
        lines += ["", caption, *_lines(rows)]
    if "against" in result:
        lines += ["", "Held against the stored result", *_lines(result["against"]["rows"])]
        lines += [f"differs: {each}" for each in result["against"]["differences"]]
    return "\n".join([*lines, "", f"Result: {path}"])


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rows below the names of their columns, text to the left and figures to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "skipped"))
    cells = [[_cell(row.get(name)) for name in names] for row in rows if "skipped" not in row]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    figures = [any(isinstance(row.get(name), int | float) for row in rows) for name in names]
    told = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, figures, strict=True)
        ).rstrip()
        for line in ([names, *cells] if cells else [])
    ]
    return [*told, *(f"skipped {row['program']}: {row['skipped']}" for row in rows if "skipped" in row)]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None else str(value)
