"""A corpus in files of a fixed number of sentences, each made once."""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TypeVar

from kokoro_nb.errors import InputError
from training.alignment import AlignmentError

T = TypeVar("T")


def build_shards(
    folder: Path,
    count: int,
    size: int,
    make: Callable[[int], list[T]],
    write: Callable[[Path, list[T]], None],
    read: Callable[[Path], list[T]],
) -> list[T]:
    """Make `count` sentences in files of `size`, or read those that are in `folder`.

    Interrupted work goes on at the file that it stopped at.

    Parameters
    ----------
    folder : Path
    count, size : int
    make : callable
        Number of the file -> what belongs into it.
    write, read : callable
        A file's contents to and from the disk.

    Raises
    ------
    InputError
        If `count` is no multiple of `size`.
    """
    from tqdm import tqdm

    if count % size:
        raise InputError(f"count={count}: a corpus is made in files of {size} sentences; use a multiple of it.")
    made: list[T] = []
    for index in tqdm(range(count // size), desc="corpus", unit="file", mininterval=5):
        path = folder / f"{index:04d}.npz"
        if not path.exists():
            write(path, make(index))
        made += read(path)
    return made


def candidates(texts: Iterable[str], index: int, size: int) -> list[str]:
    """Return the texts for file `index`: a tenth more than it holds, since some cannot be aligned."""
    spare = size * 11 // 10
    return list(islice(texts, index * spare, (index + 1) * spare))


def first_aligned(texts: Iterable[str], make: Callable[[str, int], T], count: int) -> list[T]:
    """Return the first `count` of what ``make(text, place)`` returns; sentences that cannot be aligned are left out.

    Raises
    ------
    InputError
        If the texts are not enough.
    """
    made: list[T] = []
    for text in texts:
        try:
            made.append(make(text, len(made)))
        except AlignmentError:
            continue  # the share is small, and there are spare ones
        if len(made) == count:
            return made
    raise InputError(f"Only {len(made)} of {count} sentences could be aligned; espeak and misaki do not agree.")
