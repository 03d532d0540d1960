"""Plant, export, trace and localise every fault on every backend; an interrupted study goes on where it was."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import running
from kokoro_nb.errors import InputError
from kokoro_nb.faults import KINDS, Fault, plant
from kokoro_nb.studies.decoder import DecoderProgram
from kokoro_nb.studies.localisation.study_rows import StudyRow, read_rows, write_rows
from kokoro_nb.studies.localisation.study_runs import (
    METHODS,
    HealthyRun,
    Method,
    TracePair,
    healthy_on,
    run_of,
    timed,
)
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.parity import largest_error


def study(
    faults: Sequence[Fault],
    backends: Sequence[str],
    subject: DecoderProgram,
    folder: str | Path,
    methods: Mapping[str, Method] = METHODS,
    together: int = 1,
) -> list[StudyRow]:
    """Plant each fault in a program of its own, run it on each backend, and have each method name the wrong operator.

    Parameters
    ----------
    subject : DecoderProgram
        What to plant it in. The healthy program comes first on every backend: nothing is to be named in it.
    folder : path
        For the rows, a file for each backend; those that are there are not made again.
    methods : mapping
        Name -> method. All look at the same traces.
    together : int
        Faults in one program: more than one saves exports, and then all of them are to be named and nothing besides.
        Those that leave nothing finite behind them stay alone.

    Returns
    -------
    list of StudyRow
        For each backend, the healthy program and then the programs in order.

    Raises
    ------
    InputError
        If a backend cannot run here, or the healthy program fails on it.
    """
    return [row for name in backends for row in _on(name, _programs(faults, together), subject, Path(folder), methods)]


def _on(
    name: str,
    programs: Sequence[tuple[Fault, ...]],
    subject: DecoderProgram,
    folder: Path,
    methods: Mapping[str, Method],
) -> Iterator[StudyRow]:
    from tqdm.auto import tqdm

    running(backend(name))
    path = folder / f"{subject.program.content[:12]}-{name}.jsonl"
    rows = {row.faults: row for row in read_rows(path)}
    healthy: HealthyRun | None = None
    for planted in tqdm([(), *programs], desc=name, unit="program"):
        key = tuple(map(str, planted))
        if key not in rows or not (rows[key].failure or methods.keys() <= rows[key].named.keys()):
            healthy = healthy or healthy_on(name, subject)
            rows[key] = _row(name, planted, subject, healthy, methods)
            write_rows(path, rows.values())
        yield rows[key]


def _programs(faults: Sequence[Fault], together: int) -> list[tuple[Fault, ...]]:
    """Put up to `together` faults at different operators into one program."""
    alone = [(fault,) for fault in faults if together == 1 or not KINDS[fault.kind].finite]
    groups: list[list[Fault]] = []
    for fault in faults:
        if (fault,) in alone:
            continue
        room = (g for g in groups if len(g) < together and fault.operator not in {one.operator for one in g})
        group = next(room, None)
        if group is None:
            groups.append([fault])
        else:
            group.append(fault)
    return [*alone, *map(tuple, groups)]


def _row(
    name: str, faults: Sequence[Fault], subject: DecoderProgram, healthy: HealthyRun, methods: Mapping[str, Method]
) -> StudyRow:
    seconds: dict[str, float] = {}
    planted = subject.program
    with timed("planted", seconds):
        for fault in faults:
            planted = plant(planted, fault)
    texts = tuple(map(str, faults))
    operators = tuple(_results(subject.specification.operators, fault.operator) for fault in faults)
    try:
        trace = run_of(name, planted, subject, seconds)
    except InputError as error:
        if not faults:
            raise
        return StudyRow(name, texts, operators, failure=str(error), seconds=seconds)
    named = {}
    for method, names in methods.items():
        with timed(method, seconds):
            named[method] = tuple(names(TracePair(healthy.reference, trace)))
    uncaptured = tuple(fault.operator for fault in faults if fault.operator in trace.missing)
    effect = largest_error(healthy.outputs, trace.outputs)
    return StudyRow(name, texts, operators, named, effect, healthy.floor, uncaptured, seconds=seconds)


def _results(operators: Sequence[Operator], name: str) -> tuple[str, ...]:
    """Return the names of all results of the operator that gives `name`."""
    (one,) = (operator for operator in operators if operator.name == name)
    if not one.op.endswith("]"):
        return (name,)
    kin = (one.module_path, one.op.rpartition("[")[0], one.inputs)
    return tuple(o.name for o in operators if (o.module_path, o.op.rpartition("[")[0], o.inputs) == kin)
