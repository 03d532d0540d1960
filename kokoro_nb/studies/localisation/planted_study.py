"""Plant, export, trace, ask: for every fault and backend, and again where it was left off."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import running
from kokoro_nb.errors import InputError
from kokoro_nb.faults import KINDS, Fault, plant
from kokoro_nb.studies.decoder import Subject
from kokoro_nb.studies.localisation.methods import METHODS, Method, View
from kokoro_nb.studies.localisation.study_rows import Row, read_rows, write_rows
from kokoro_nb.studies.localisation.study_runs import Healthy, asked, difference, healthy_on, run_of, timed
from kokoro_nb.traces.operators import Operator


def study(
    faults: Sequence[Fault],
    backends: Sequence[str],
    subject: Subject,
    folder: str | Path,
    methods: Mapping[str, Method] = METHODS,
    together: int = 1,
) -> list[Row]:
    """Plant each fault in a program of its own, run it on each backend, and ask each method which operator is wrong.

    Parameters
    ----------
    faults : sequence of Fault
        What to plant.
    backends : sequence of str
        Keys of `BACKENDS`.
    subject : Subject
        What to plant it in. The healthy program comes first on every backend: nothing is to be named in it.
    folder : path
        Where the rows are kept, a file for each backend; those that are there are not made again.
    methods : mapping
        Name -> method. All look at the same traces.
    together : int
        Faults in one program: more than one saves exports, and asks for all of them to be named and nothing besides.
        Those that leave nothing finite behind them stay alone.

    Returns
    -------
    list of Row
        For each backend, the healthy program and then the programs in order.

    Raises
    ------
    InputError
        If a backend cannot run here, or the healthy program fails on it.
    """
    return [row for name in backends for row in _on(name, _programs(faults, together), subject, Path(folder), methods)]


def _on(
    name: str, programs: Sequence[tuple[Fault, ...]], subject: Subject, folder: Path, methods: Mapping[str, Method]
) -> Iterator[Row]:
    from tqdm.auto import tqdm

    running(backend(name))
    path = folder / f"{subject.exported.content[:12]}-{name}.jsonl"
    kept = {row.faults: row for row in read_rows(path)}
    healthy: Healthy | None = None
    for planted in tqdm([(), *programs], desc=name, unit="program"):
        key = tuple(map(str, planted))
        if key not in kept or not (kept[key].failure or methods.keys() <= kept[key].named.keys()):
            healthy = healthy or healthy_on(name, subject)
            kept[key] = _row(name, planted, subject, healthy, methods)
            write_rows(path, kept.values())
        yield kept[key]


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


def _row(name: str, faults: Sequence[Fault], subject: Subject, healthy: Healthy, methods: Mapping[str, Method]) -> Row:
    seconds: dict[str, float] = {}
    planted = subject.exported
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
        return Row(name, texts, operators, failure=str(error), seconds=seconds)
    view = View(healthy.reference, trace)
    named = asked(methods, view, seconds)
    uncaptured = tuple(fault.operator for fault in faults if fault.operator in trace.missing)
    effect = difference(healthy.outputs, trace.outputs)
    return Row(name, texts, operators, named, effect, healthy.floor, uncaptured, seconds=seconds)


def _results(operators: Sequence[Operator], name: str) -> tuple[str, ...]:
    """Return the names of all results of the operator that gives `name`."""
    (one,) = (operator for operator in operators if operator.name == name)
    if not one.op.endswith("]"):
        return (name,)
    kin = (one.module_path, one.op.rpartition("[")[0], one.inputs)
    return tuple(o.name for o in operators if (o.module_path, o.op.rpartition("[")[0], o.inputs) == kin)
