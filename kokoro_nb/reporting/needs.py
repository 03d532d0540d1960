"""The memory and the disk that large weights need, checked before the work begins; and the room of saved exports."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.fragments import size_text
from kokoro_nb.storage import bytes_in, cache_dir

SMALL = ("mini", "narrow")
SMALL_BYTES, FULL_BYTES = 16e6, 327e6  # of the bundled voice, and of the published model: its parameters in float32
# Bytes of memory by the bytes of the weights: a diagnosis of the published size held 3.8 GB, a delivery 2.4 GB, and the
# largest of the notebooks, 19, 5.3 GB
DIAGNOSIS, DELIVERY, NOTEBOOK = 13.0, 9.0, 20.0
ROOMS = ("artefacts", "delivered", "client_programs", "repair", "inductor")  # made again by whoever needs them
LIMIT, VARIABLE = 20.0, "KOKORO_NB_CACHE_GB"
YOUNG = 3600.0  # seconds: somebody may be about to load it


def require_memory(work: str, weights: str, times: float, smaller: str = "--weights mini") -> int:
    """Return how often work on these weights can be done at once; for small ones memory is nothing to count.

    Parameters
    ----------
    work : str
        What is begun, with its article.
    weights : str
        As in the notebooks.
    times : float
        Bytes that it holds by the bytes of the weights.
    smaller : str
        Options by which smaller weights are chosen.

    Raises
    ------
    InputError
        If there is not the memory to do it once.
    """
    import psutil

    if _bytes(weights) <= 2 * SMALL_BYTES:
        return sys.maxsize
    needed, free = times * _bytes(weights), int(psutil.virtual_memory().available)
    if free < needed:
        memory = f"up to {size_text(round(needed))} of memory, and {size_text(free)} are free"
        remedy = f"end other programs, or take smaller weights: {smaller}"
        raise InputError(f"With these weights {work} takes {memory}; {remedy}.")
    return int(free // needed)


def _bytes(weights: str) -> float:
    """Return how large weights are; what is no path and not made here is taken for a hub's."""
    path = Path(weights)
    if weights in SMALL:
        return SMALL_BYTES
    if path.is_dir():
        return sum(each.stat().st_size for each in path.glob("*.*") if each.is_file())
    return path.stat().st_size if path.is_file() else FULL_BYTES


def trim_exports(limit: float | None = None, young: float = YOUNG) -> int:
    """Remove the oldest exports until the rest takes no more than `limit`, and return how many bytes that were.

    Parameters
    ----------
    limit : float, optional
        In GB (10**9 bytes); by default ``$KOKORO_NB_CACHE_GB``, or 20.
    young : float
        What was made within so many seconds stays; an hour by default.
    """
    allowed = 1e9 * (limit if limit is not None else _limit())
    exports = sorted(_exports(), key=lambda one: one[2])
    left, removed, now = sum(size for _, size, _ in exports), 0, time.time()
    for path, size, made in exports:
        if left - removed <= allowed or now - made < young:
            break
        shutil.rmtree(path, ignore_errors=True)
        removed += size
    return removed


def exports_since(begun: float) -> int:
    """Return how many exports in the cache were made since a time, in seconds of the epoch, by any process."""
    return sum(made >= begun for path, _, made in _exports() if path.parent.name in (ROOMS[0], ROOMS[2]))


def _limit() -> float:
    try:
        return float(os.environ.get(VARIABLE) or LIMIT)
    except ValueError:
        return LIMIT


def _exports() -> Iterator[tuple[Path, int, float]]:
    """Yield the folder of each export, its bytes, and when it was made."""
    for room in ROOMS:
        for folder in (cache_dir() / room).glob("*/"):
            try:
                yield folder, bytes_in(folder), folder.stat().st_mtime
            except OSError:  # removed meanwhile
                continue
