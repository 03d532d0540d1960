"""The corpora of inspection: healthy files of every form, planted faults, known blame, and what it is held against."""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from kokoro_nb.errors import InputError
from kokoro_nb.studies.inspection_corpus.blame_entries import KNOWN, KnownBlame
from kokoro_nb.studies.inspection_corpus.budget_rows import QUANTISERS, BudgetRow, budget_row
from kokoro_nb.studies.inspection_corpus.corrupted_entries import CORRUPTED
from kokoro_nb.studies.inspection_corpus.corrupted_rows import CorruptedRow, corrupted_row, ends_of
from kokoro_nb.studies.inspection_corpus.fault_entries import WANTED, PlantedFault, named, possible
from kokoro_nb.studies.inspection_corpus.foresight_rows import FORESEEN, ForesightRow, foresight_row
from kokoro_nb.studies.inspection_corpus.oracle_rows import OracleRow, oracle_entries, oracle_row
from kokoro_nb.studies.inspection_corpus.saved_rows import saved_rows
from kokoro_nb.studies.inspection_corpus.zoo_entries import ZOO
from kokoro_nb.studies.inspection_corpus.zoo_rows import ZooRow, zoo_row

Corpus = Literal["zoo", "faults", "blame", "corrupted", "oracle", "budget", "foresight"]
CORPORA: tuple[Corpus, ...] = get_args(Corpus)


@dataclass(frozen=True)
class FaultRow:
    """Which node had to be named for a planted fault, and which one was; empty if none."""

    case: str
    kind: str
    planted: str
    named: str

    @property
    def sound(self) -> bool:
        """Whether it is the one."""
        return self.planted == self.named


@dataclass(frozen=True)
class BlameRow:
    """Who is to blame, and who was blamed, each with the node."""

    case: str
    kind: str
    right: str
    said: str

    @property
    def sound(self) -> bool:
        """Whether it is the same."""
        return self.right == self.said


Row = ZooRow | FaultRow | BlameRow | CorruptedRow | OracleRow | BudgetRow | ForesightRow


def run_corpus(
    corpus: Corpus,
    only: Sequence[str] = (),
    folder: str | Path | None = None,
    watch: Callable[[Any], object] = lambda row: None,
    wanted: int = WANTED,
) -> tuple[Row, ...]:
    """Inspect every file of a corpus, or take the rows that were made by the same code before.

    Parameters
    ----------
    corpus : str
        ``zoo``, ``faults``, ``blame``, ``corrupted``, ``oracle``, ``budget`` or ``foresight``.
    only, folder, watch
        As for `saved_rows`.
    wanted : int
        How many faults are planted.

    Raises
    ------
    InputError
        If there is no such corpus, or nothing in it of such a name.
    """
    if corpus == "zoo":
        return saved_rows(corpus, ZOO, ZooRow, zoo_row, only, folder, watch)
    if corpus == "blame":
        return saved_rows(corpus, KNOWN, BlameRow, blame_row, only, folder, watch)
    if corpus == "corrupted":
        return saved_rows(corpus, CORRUPTED, CorruptedRow, corrupted_row, only, folder, watch)
    if corpus == "oracle":
        return saved_rows(corpus, oracle_entries(), OracleRow, oracle_row, only, folder, watch)
    if corpus == "budget":
        return saved_rows(corpus, QUANTISERS, BudgetRow, budget_row, only, folder, watch)
    if corpus == "foresight":
        return saved_rows(corpus, FORESEEN, ForesightRow, foresight_row, only, folder, watch)
    if corpus == "faults":
        with tempfile.TemporaryDirectory() as place:
            entries = list(possible(Path(place), wanted))
        return saved_rows(corpus, entries, FaultRow, fault_row, only, folder, watch)
    raise InputError(f"There is no corpus '{corpus}'; use one of {', '.join(CORPORA)}.")


def fault_row(fault: PlantedFault) -> FaultRow:
    """Plant a fault, and inspect the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = fault.path(Path(folder))
        key = fault.planted(path)
        return FaultRow(fault.name, fault.kind, key, named(fault, fault.inspected(path)))


def blame_row(known: KnownBlame) -> BlameRow:
    """Write a file of which it is known who is to blame, and inspect it."""
    with tempfile.TemporaryDirectory() as folder:
        wrong, report = known.inspected(Path(folder) / "model.onnx")
    first = report.first
    said = "nothing" if first is None else f"{first.blame} {first.key}".strip()
    return BlameRow(known.name, known.plant.__name__, f"{wrong.blame} {wrong.key}".strip(), said)


def summed(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for each kind of fault or of blame, with how many there are and how many are as they have to be.

    Of the zoo: how many nodes there are, how many were judged, and how many files were accused. Of damaged files: how
    many of each kind ended in what. Of what is held against something else: how many there are, and how many agree.
    """
    if rows and isinstance(rows[0], ZooRow):
        accused = sum(bool(row.alarms) for row in rows if isinstance(row, ZooRow))
        return [{"files": len(rows), **_added(rows, ("nodes", "judged")), "accused": accused}]
    if rows and isinstance(rows[0], OracleRow | BudgetRow | ForesightRow):
        of = {OracleRow: "cases", BudgetRow: "layers", ForesightRow: "nodes"}[type(rows[0])]
        total = _added(rows, (of, "within"))
        return [total | {"share": f"{total['within'] / total[of]:.1%}"}]
    if rows and isinstance(rows[0], CorruptedRow):
        return ends_of([row for row in rows if isinstance(row, CorruptedRow)])
    of_kinds = [row for row in rows if isinstance(row, FaultRow | BlameRow)]
    kinds, sound = Counter(row.kind for row in of_kinds), Counter(row.kind for row in of_kinds if row.sound)
    return [{"kind": kind, "right": sound[kind], "of": count} for kind, count in kinds.items()]


def _added(rows: Sequence[Row], names: Sequence[str]) -> dict[str, int]:
    return {name: sum(getattr(row, name) for row in rows) for name in names}


def table_row(row: Row) -> dict[str, Any]:
    """Return the row of a table."""
    return {**asdict(row), "sound": row.sound}
