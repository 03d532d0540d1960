"""How many mutants of the measuring modules their own tests kill: ``make mutants``, a sample within ten minutes.

cosmic-ray makes the mutants: an operator, a comparison or a constant is replaced at one place. Each is imported in
place of the module by a process of its own, which runs the tests that mirror the module and stops at the first failure.
Before that they have to pass with the module as it is: where they do not, every mutant would count as noticed. What no
test notices is printed with its place, and counts against its room unless `harmless_mutants` says why it is none.

    python -m tests.mutants [--minutes 10] [--seed 0] [--rooms metrics verdicts] [--each 40] [--all]
"""

import argparse
import ast
import importlib.abc
import importlib.util
import multiprocessing
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.harmless_mutants import harmless

ROOT = Path(__file__).parents[1]
PATIENCE = 10  # times the seconds of CPU that the tests take without a mutant: an endless loop is noticed
STUCK = 900.0  # seconds after which a process that needs no CPU is given up
TARGET = 0.9  # share of a room's mutants that is to be killed
ROOMS: dict[str, dict[str, tuple[str, ...]]] = {  # room -> module -> its tests
    "metrics": {
        "kokoro_nb.traces.parity": ("tests/traces/test_parity.py",),
        "kokoro_nb.traces.statistics": ("tests/traces/test_statistics.py",),
        "kokoro_nb.listening.waveform": ("tests/listening/test_waveform.py",),
        "kokoro_nb.listening.spectrum": ("tests/listening/test_spectrum.py",),
    },
    "localisation": {
        "kokoro_nb.locate.verdicts": ("tests/locate/test_verdicts.py",),
        "kokoro_nb.locate.local_error": (
            "tests/locate/test_local_error.py",
            "tests/locate/test_local_error_arithmetic.py",
            "tests/locate/test_rounding_bound.py::test_a_factor_in_a_short_running_sum_is_named",
            "tests/locate/test_rounding_bound.py::test_a_minute_of_a_steady_phase_is_right_and_one_wrong_sample_in_it_is_named",
            "tests/locate/test_rounding_bound.py::test_what_was_rounded_on_the_way_is_allowed_for",
        ),
        "kokoro_nb.locate.output_limit": ("tests/locate/test_output_limit.py",),
        "kokoro_nb.locate.patterns": ("tests/locate/test_patterns.py",),
        "kokoro_nb.locate.rounding_families": (
            "tests/locate/test_rounding_families.py",
            "tests/locate/test_rounding_edges.py",
        ),
    },
    "padding": {
        "kokoro_nb.models.static_buffers": ("tests/models/test_static_buffers.py",),
        "kokoro_nb.studies.padding.padding_audit": ("tests/studies/padding/test_padding_audit.py",),
    },
    "delivery": {
        "kokoro_nb.delivery.chunks": ("tests/delivery/test_chunks.py",),
        "kokoro_nb.delivery.contract": ("tests/delivery/test_contract.py",),
        "kokoro_nb.delivery.export": ("tests/delivery/test_export.py",),
    },
    "verdicts": {
        "kokoro_nb.findings": ("tests/test_findings.py",),
        "kokoro_nb.reporting.record_checks": ("tests/reporting/test_record_checks.py",),
    },
    "cache keys": {
        "kokoro_nb.cache_keys": ("tests/test_cache_keys.py",),
        "kokoro_nb.backends.artefacts": ("tests/backends/test_artefact_cache.py",),
        "kokoro_nb.reporting.runs": ("tests/reporting/test_runs.py",),
    },
}
ONLY = {  # modules of which some functions alone belong to a room: the rest exports programs
    "kokoro_nb.delivery.export": ("buckets", "runtime", "patches", "delivered", "delivered_folder", "_check"),
}
SKIPPED = ("core/RemoveDecorator", "core/ExceptionReplacer", "core/AddNot")  # not of what is measured, or of types


@dataclass(frozen=True)
class Mutant:
    """A module's source with one change."""

    module: str
    tests: tuple[str, ...]
    operator: str
    source: str
    line: int
    text: str


@dataclass(frozen=True)
class Place:
    """Where an operator of cosmic-ray can change a module."""

    module: str
    tests: tuple[str, ...]
    operator: str
    occurrence: int
    line: int

    def mutant(self) -> Mutant | None:
        """Make the change; None where it is the same program, or none that can be read."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        code = _code(self.module)
        changed = mutate_code(code, get_operator(self.operator)(), self.occurrence)
        tree = _parsed(changed or "")
        if changed is None or tree is None or ast.dump(tree) == ast.dump(ast.parse(code)):
            return None
        text = changed.splitlines()[self.line - 1].strip()
        return Mutant(self.module, self.tests, self.operator, changed, self.line, text)


def places(module: str, tests: tuple[str, ...]) -> Iterator[Place]:
    """Yield every place of a module, or of its functions in `ONLY`, but those of its annotations and imports."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    code = _code(module)
    nodes, lines = list(ast_nodes(get_ast(code))), code.splitlines()
    some = [one for one in ast.walk(ast.parse(code)) if getattr(one, "name", None) in ONLY.get(module, ())]
    wanted = {line for one in some for line in range(one.lineno, one.end_lineno + 1)} or range(len(lines) + 1)
    for name in operator_names():
        if name.startswith(SKIPPED):
            continue
        try:
            operator = get_operator(name)()
        except TypeError:  # it needs arguments
            continue
        found = [start[0] for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, line in enumerate(found):
            text = lines[line - 1].strip()
            skipped = text.startswith(("from ", "import ", "def ", ")")) or "| None" in text
            if line in wanted and not skipped:
                yield Place(module, tests, name, occurrence, line)


def _code(module: str) -> str:
    return Path(str(importlib.util.find_spec(module).origin)).read_text(encoding="utf-8")


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except SyntaxError:
        return None


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports the source of a mutant in the place of its module."""

    def __init__(self, mutant: Mutant):
        self.mutant = mutant
        self.path = str(importlib.util.find_spec(mutant.module).origin)

    def find_spec(self, name, path, target=None):
        found = importlib.util.spec_from_file_location(name, self.path, loader=self)
        return found if name == self.mutant.module else None

    def get_filename(self, name):
        return self.path

    def get_data(self, path):
        return self.mutant.source.encode()

    def path_stats(self, path):
        raise OSError("nothing is cached")


def _run(mutant: Mutant, seconds: int) -> None:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    out = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(out, stream)
    finder = Replaced(mutant)
    for name in [name for name in sys.modules if name.partition(".")[0] == "kokoro_nb"]:
        del sys.modules[name]  # finding a module has imported its packages, and what these import
    sys.meta_path.insert(0, finder)
    os.chdir(ROOT)
    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    os._exit(0 if pytest.main([*options, *mutant.tests]) == 0 else 1)


def survives(mutant: Mutant, seconds: int = 600) -> bool:
    """Return whether the tests pass with the mutant in the place of its module, within `seconds` of CPU."""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(mutant, seconds))
    process.start()
    process.join(STUCK)
    if process.is_alive():
        process.kill()
        process.join()
        return False
    return process.exitcode == 0


def patience(module: str, tests: tuple[str, ...]) -> int:
    """Return how many seconds of CPU the tests of a mutant may take; stop where they fail without one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not survives(Mutant(module, tests, "none", _code(module), 1, "")):
        sys.exit(f"The tests of {module} fail without a mutant: {' '.join(tests)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return PATIENCE * (1 + int(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))


def _load_once() -> None:
    """Load what the process of every mutant needs, and no plugin of pytest: that takes four fifths of the time."""
    import hypothesis  # noqa: F401
    import librosa.filters  # noqa: F401
    import pytest  # noqa: F401
    import scipy.signal  # noqa: F401
    import torch

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    torch.set_num_threads(1)


def main() -> int:
    """Print every survivor, and the score of each room; return 1 where one is below `TARGET`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long it may take (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample (default: 0)")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), help="which (default: all)")
    parser.add_argument("--each", type=int, default=sys.maxsize, metavar="N", help="at most so many of each room")
    parser.add_argument("--all", action="store_true", help="every mutant, however long it takes")
    arguments = parser.parse_args()
    _load_once()
    end = time.monotonic() + 60 * arguments.minutes
    draw, pools, scores, seconds = random.Random(arguments.seed), {}, {}, {}
    for room in arguments.rooms:
        seconds |= {module: patience(module, tests) for module, tests in ROOMS[room].items()}
        pools[room] = [one for module, tests in ROOMS[room].items() for one in places(module, tests)]
        draw.shuffle(pools[room])
        scores[room] = Counter(known=len(pools[room]))
        print(f"{room}: {scores[room]['known']} mutants", flush=True)
    while any(pools.values()) and (arguments.all or time.monotonic() < end):
        for room in [name for name, pool in pools.items() if pool]:  # in turn, so that each has its share of the time
            mutant = pools[room].pop().mutant()
            if mutant is None:
                continue
            scores[room]["tried"] += 1
            if scores[room]["tried"] >= arguments.each:
                pools[room].clear()
            if not survives(mutant, seconds[mutant.module]):
                scores[room]["killed"] += 1
                continue
            reason = harmless(mutant.module, mutant.text)
            scores[room]["harmless"] += reason is not None
            print(f"survives in {mutant.module}:{mutant.line}: {mutant.text}  {reason or ''}", flush=True)
    low = []
    for room, score in scores.items():
        counted = score["tried"] - score["harmless"]
        share = score["killed"] / counted if counted else float("nan")
        low += [room] if not share >= TARGET else []
        killed = f"{room}: {score['killed']} of {counted} killed ({share:.0%})"
        print(f"{killed}, {score['harmless']} without consequence, of {score['known']} mutants")
    return int(bool(low))


if __name__ == "__main__":
    sys.exit(main())
