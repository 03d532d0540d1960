"""What notebooks and commands need of memory and disk with the weights in use, said before the work begins."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.exports_room import exports_bytes
from kokoro_nb.reporting.readable import size_text
from kokoro_nb.storage import cache_dir

SMALL = ("mini", "narrow")
SMALL_BYTES, FULL_BYTES = 16e6, 327e6  # of the bundled voice, and of the published model: its parameters in float32
# Measured at the published size: 15 held 5.7 GB, 06 3.6 GB; on the small ones 03 held 1.1 GB; the rest is margin
MEMORY, MEMORY_OF_WEIGHTS = 1.8e9, 15.0
# Of one notebook: what it leaves, and its exports by the bytes of the weights; 03, 06 and 15 wrote 2.5 GB together
DISK, DISK_OF_WEIGHTS = 5e7, 3.0

# Of a command on its own, by the bytes of the weights: a diagnosis held 3.8 GB on the published size, a delivery 2.4 GB
DIAGNOSIS, DELIVERY = 13.0, 9.0


@dataclass(frozen=True)
class Needs:
    """What a run of notebooks needs.

    Attributes
    ----------
    weights : float
        Bytes of the largest weights among the parameters.
    notebooks : int
        How many are run.
    """

    weights: float
    notebooks: int

    @property
    def memory(self) -> float:
        """Bytes that one notebook may hold."""
        return MEMORY + MEMORY_OF_WEIGHTS * self.weights

    @property
    def large(self) -> bool:
        """Whether the weights decide what is needed."""
        return self.weights > 2 * SMALL_BYTES

    @property
    def disk(self) -> float:
        """Bytes that all of them may write."""
        return self.notebooks * (DISK + DISK_OF_WEIGHTS * self.weights)

    def jobs(self, requested: int) -> int:
        """Return how many notebooks run at once: as many as requested, if there is memory for so many large ones.

        Raises
        ------
        InputError
            If there is none for a single one.
        """
        if not self.large:  # any machine has that, and what is free for a moment says little
            return requested
        free = _free_memory("a notebook", self.memory, "-p weights mini")
        return requested if requested * self.memory <= free else int(free // self.memory)

    def require_disk(self, out_dir: Path) -> None:
        """Refuse a disk without room for what `out_dir` and the cache are going to hold.

        Raises
        ------
        InputError
            If one of them has less.
        """
        if not self.large:  # a notebook for which the disk is too full then says so in its record
            return
        more = self.disk - exports_bytes()  # what is there need not be written again
        for folder, option in ((cache_dir(), "with KOKORO_NB_CACHE"), (out_dir, "with --out")):
            free = shutil.disk_usage(_existing(folder)).free
            if free < more:
                raise InputError(
                    f"With these weights {_counted(self.notebooks)} up to {size_text(round(more))}, and "
                    f"{folder} has room for {size_text(free)}; make room, or choose another folder {option}."
                )

    def statement(self, jobs: int) -> str:
        """Return what is needed, in a line."""
        at_once = "one notebook at a time" if jobs == 1 else f"{jobs} notebooks at once"
        return (
            f"Weights of {size_text(round(self.weights))}: {at_once}, up to {size_text(round(self.memory))} of memory "
            f"each, {size_text(round(self.disk))} of exports in all."
        )


def needs(given: Mapping[str, Mapping[str, Any]]) -> Needs:
    """Return what is needed by the notebooks, each with the parameters that are passed to it."""
    sizes = [_bytes(str(values.get("weights", SMALL[0]))) for values in given.values()]
    return Needs(sorted([SMALL_BYTES, *sizes])[-1], len(sizes))


def require_memory(work: str, weights: str, times: float) -> None:
    """Refuse work on large weights for which there is no memory.

    Parameters
    ----------
    work : str
        What is begun, with its article.
    weights : str
        As in the notebooks.
    times : float
        Bytes that it holds by the bytes of the weights.

    Raises
    ------
    InputError
        If there is less.
    """
    needed = Needs(_bytes(weights), 1)
    if needed.large:
        _free_memory(work, times * needed.weights, "--weights mini")


def _free_memory(work: str, needed: float, smaller: str) -> int:
    """Return how many bytes are free; refuse less than `needed`."""
    import psutil

    free = int(psutil.virtual_memory().available)
    if free < needed:
        raise InputError(
            f"With these weights {work} takes up to {size_text(round(needed))} of memory, and {size_text(free)} are "
            f"free; end other programs, or take smaller weights: {smaller}."
        )
    return free


def _bytes(weights: str) -> float:
    """Return how large weights are; what is no path and not made here is taken for a hub's."""
    path = Path(weights)
    if weights in SMALL:
        return SMALL_BYTES
    if path.is_dir():
        return sorted([SMALL_BYTES, *(each.stat().st_size for each in path.glob("*.*") if each.is_file())])[-1]
    return path.stat().st_size if path.is_file() else FULL_BYTES


def _counted(notebooks: int) -> str:
    return "1 notebook writes" if notebooks == 1 else f"{notebooks} notebooks write"


def _existing(folder: Path) -> Path:
    return next(one for one in (folder, *folder.resolve().parents) if one.is_dir())
