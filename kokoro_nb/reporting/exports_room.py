"""How much room the saved exports take, and which of them are removed: the oldest, beyond a limit."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from kokoro_nb.storage import bytes_in, cache_dir

ROOMS = ("artefacts", "delivered", "client_programs", "repair", "inductor")  # made again by whoever needs them
LIMIT, VARIABLE = 20.0, "KOKORO_NB_CACHE_GB"
YOUNG = 3600.0  # seconds: somebody may be about to load it


def exports_bytes() -> int:
    """Return how much the saved exports take."""
    return sum(size for _, size, _ in _exports())


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
