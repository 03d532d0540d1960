"""The corpora diagnosed row by row: each row is saved, so that a run that was stopped goes on where it was."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from kokoro_nb.errors import InputError
from kokoro_nb.locate import Diagnosis, diagnose
from kokoro_nb.storage import cache_dir, digest, read_json, write_json
from kokoro_nb.studies.diagnosis_corpus.corpus_entries import HEALTHY, SICK, KnownHealthy, KnownSick

Kind = Literal["sick", "healthy"]
CORPORA: dict[Kind, tuple[KnownSick | KnownHealthy, ...]] = {"sick": SICK, "healthy": HEALTHY}
SEEDS = (0, 1)
ERROR = 2  # what a command ends with that raises an error
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class SickRow:
    """What the diagnosis said of a sick export.

    Attributes
    ----------
    culprit, mechanism, remedy : bool
        Whether an operator that is at fault is named first, and none that is not; whether what happened there is; and
        whether something that cures it was found and measured.
    named, because, cured_by : str
        What was said.
    exit_status : int
        That `kokoro-nb diagnose` ends with.
    """

    case: str
    backend: str
    seed: int
    culprit: bool
    mechanism: bool
    remedy: bool
    named: str
    because: str
    cured_by: str
    exit_status: int
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether the row is as it has to be: culprit and mechanism; a remedy is more."""
        return self.culprit and self.mechanism


@dataclass(frozen=True)
class HealthyRow:
    """What the diagnosis said of a healthy export; `reason` why, where it is no plain pass."""

    case: str
    backend: str
    seed: int
    verdict: str
    reason: str
    exit_status: int
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether nothing was accused: a pass, or unknown with a reason."""
        return self.verdict == "pass" or (self.verdict == "unknown" and bool(self.reason))


def run_corpus(
    kind: Kind,
    seeds: Sequence[int] = SEEDS,
    only: Sequence[str] = (),
    folder: str | Path | None = None,
    watch: Callable[[SickRow | HealthyRow], None] = lambda row: None,
) -> tuple[SickRow | HealthyRow, ...]:
    """Diagnose every export of a corpus, or take the rows that were made by the same code before.

    Parameters
    ----------
    kind : str
        ``sick`` or ``healthy``.
    seeds : sequence of int
        Of weights and inputs: a row for each.
    only : sequence of str
        Parts of the names of those that are diagnosed; all by default.
    folder : path, optional
        Where rows are saved; ``diagnosis`` in the cache by default.
    watch : callable
        Gets each row as soon as it is there.

    Raises
    ------
    InputError
        If there is no such corpus, or no export in it of such a name.
    """
    if kind not in CORPORA:
        raise InputError(f"There is no corpus '{kind}'; use one of {', '.join(CORPORA)}.")
    chosen = [one for one in CORPORA[kind] if not only or any(part in one.name for part in only)]
    if not chosen:
        raise InputError(f"The {kind} corpus has nothing called {', '.join(only)}; see the names in its table.")
    place = Path(folder or cache_dir() / "diagnosis") / kind
    rows = []
    for one in chosen:
        for seed in seeds:
            rows.append(_saved(one, seed, place / f"{one.name}-{seed}.json"))
            watch(rows[-1])
    return tuple(rows)


def _saved(one: KnownSick | KnownHealthy, seed: int, path: Path) -> SickRow | HealthyRow:
    form = SickRow if isinstance(one, KnownSick) else HealthyRow
    code = _code()
    try:
        saved = read_json(path, "row of a corpus")
        if saved["code"] == code:
            return form(**saved["row"])
    except (InputError, KeyError, TypeError):
        pass  # absent, or of another form: it is made anew
    try:
        row = sick_row(one, seed) if isinstance(one, KnownSick) else healthy_row(one, seed)
    except Exception as error:  # the others are diagnosed all the same; it is not saved
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if isinstance(one, KnownSick):
            return SickRow(one.name, one.on, seed, False, False, False, said, "", "", ERROR, float("nan"))
        return HealthyRow(one.name, one.backend, seed, "error", said, ERROR, float("nan"))
    write_json(path, {"code": code, "row": asdict(row)})
    return row


def _code() -> str:
    """Return the digest of all code that a row depends on."""
    rooms = ("traces", "backends", "locate", "defects", "studies/diagnosis_corpus")
    files = sorted(path for room in rooms for path in (_PACKAGE / room).rglob("*.py"))
    return digest(*(path.read_text(encoding="utf-8") for path in files))


def sick_row(one: KnownSick, seed: int) -> SickRow:
    """Diagnose a sick export, and compare what is said with what it is sick of."""
    start = time.perf_counter()
    module, inputs, *rest = one.program(seed)
    reference = rest[0] if rest else None
    with tempfile.TemporaryDirectory() as folder:
        file = one.file(module, inputs, Path(folder) / "model.onnx") if one.file else None
        found = diagnose(module, inputs, one.backend, reference, artefact=file, remedies=True)
    seconds = time.perf_counter() - start
    named = [each.tap.name for each in found.ranked if each.tap is not None]
    mechanism = found.ranked[0].mechanism if found.ranked else None
    cures = [each for each in found.remedies if each.verdict == "pass"]
    return SickRow(
        case=one.name,
        backend=one.on,
        seed=seed,
        culprit=_expected(one, named),
        mechanism=mechanism is not None and mechanism.name == one.mechanism,
        remedy=bool(cures),
        named=", ".join(named) or found.statement,
        because=mechanism.name if mechanism else "",
        cured_by=", ".join(each.name for each in cures),
        exit_status=found.exit_status,
        seconds=seconds,
    )


def _expected(one: KnownSick, named: Sequence[str]) -> bool:
    """Return whether the first that is named is at fault, and the others are or are wrong by a known defect."""
    others = [name for name in named if name not in one.culprits]
    also = all(any(fnmatchcase(name, pattern) for pattern in one.also) for name in others)
    return bool(named) and named[0] in one.culprits and also


def healthy_row(one: KnownHealthy, seed: int) -> HealthyRow:
    """Diagnose a healthy export."""
    start = time.perf_counter()
    module, inputs = one.program(seed)
    found = diagnose(module, inputs, one.backend)
    seconds = time.perf_counter() - start
    reason = "" if found.verdict == "pass" else "; ".join((found.statement, *_accused(found)))
    return HealthyRow(one.name, one.backend, seed, found.verdict, reason, found.exit_status, seconds)


def _accused(found: Diagnosis) -> Iterator[str]:
    for one in found.ranked:
        if one.tap is not None and one.ratio is not None:
            yield f"{one.tap.name}: {one.ratio:.3g} times what rounding explains"


def table_row(row: SickRow | HealthyRow) -> dict[str, Any]:
    """Return the row of a table, with units in its keys."""
    values = asdict(row)
    seconds = values.pop("seconds")
    return {**values, "time (s)": seconds}
