"""Rows of a corpus, each saved as soon as it is there, so that a run that was stopped goes on where it was."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kokoro_nb.errors import InputError
from kokoro_nb.storage import cache_dir, digest, read_json, write_json

_PACKAGE = Path(__file__).parents[2]


class NamedEntry(Protocol):
    """What a row is made of."""

    @property
    def name(self) -> str:
        """By which the row is saved."""


E = TypeVar("E", bound=NamedEntry)
R = TypeVar("R")


def saved_rows(
    kind: str,
    entries: Sequence[E],
    form: type[R],
    make: Callable[[E], R],
    only: Sequence[str] = (),
    folder: str | Path | None = None,
    watch: Callable[[R], object] = lambda row: None,
) -> tuple[R, ...]:
    """Make a row of each entry, or take those that were made by the same code before.

    Parameters
    ----------
    kind : str
        Name of the corpus: where rows are saved.
    entries : sequence
        Each with a ``name``.
    form : type
        A dataclass.
    make : callable
        Makes a row of an entry; what it raises ends the run, and the rows before it stay.
    only : sequence of str
        Parts of the names of those that are made; all by default.
    folder : path, optional
        ``inspection`` in the cache by default.
    watch : callable
        Gets each row as soon as it is there.

    Raises
    ------
    InputError
        If no entry has such a name.
    """
    chosen = [one for one in entries if not only or any(part in one.name for part in only)]
    if not chosen:
        raise InputError(f"The {kind} have nothing called {', '.join(only)}; see the names in their table.")
    place = Path(folder or cache_dir() / "inspection") / kind
    rows = []
    for one in chosen:
        path = place / f"{one.name}.json"
        row = _read(path, form)
        if row is None:
            row = make(one)
            write_json(path, {"code": _code(), "row": asdict(row)})  # type: ignore[call-overload]
        rows.append(row)
        watch(row)
    return tuple(rows)


def _read(path: Path, form: type[R]) -> R | None:
    try:
        saved: Any = read_json(path, "row of a corpus")
        if saved["code"] != _code():
            return None
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in saved["row"].items()}
        return form(**values)
    except (InputError, KeyError, TypeError):
        return None  # absent, or of another form: it is made anew


@cache
def _code() -> str:
    """Return the digest of all code that a row depends on."""
    rooms = ("inspection", "studies/inspection_corpus", "studies/diagnosis_corpus", "backends")
    files = sorted(path for room in rooms for path in (_PACKAGE / room).rglob("*.py"))
    return digest(*(path.read_text(encoding="utf-8") for path in files))
