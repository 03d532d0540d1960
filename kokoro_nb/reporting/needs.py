"""What notebooks and commands need of memory and disk with the weights in use, said before the work begins."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.expected_costs import expected_cost
from kokoro_nb.reporting.exports_room import exports_bytes
from kokoro_nb.reporting.readable import size_text
from kokoro_nb.reporting.runs import RunRecord
from kokoro_nb.storage import cache_dir

SMALL = ("mini", "narrow")
SMALL_BYTES, FULL_BYTES = 16e6, 327e6  # of the bundled voice, and of the published model: its parameters in float32
# Of a notebook that was not run here: more than any of the project's, of which 19 held 5.3 GB at the published size
MEMORY, MEMORY_OF_WEIGHTS = 1.8e9, 15.0
MARGIN = 1.05  # over what was measured: two runs of a notebook mostly differ by less
OWN = 6.5e8  # what the processes hold that execute the notebooks: 0.61 GB were measured with two at once
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
    each : mapping
        Name of each notebook -> bytes of memory that it is expected to hold: by its last run here, or else the most
        that any should.
    seconds : mapping
        Name of each that was run here -> how long that took: to begin the longest first, not to say how long it will
        be.
    """

    weights: float
    each: Mapping[str, float]
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def notebooks(self) -> int:
        """How many are run."""
        return len(self.each)

    @property
    def memory(self) -> float:
        """Bytes that the largest of the notebooks is expected to hold."""
        return sorted(self.each.values())[-1] if self.each else 0.0

    @property
    def large(self) -> bool:
        """Whether the weights decide what is needed."""
        return self.weights > 2 * SMALL_BYTES

    @property
    def disk(self) -> float:
        """Bytes that all of them may write."""
        return self.notebooks * (DISK + DISK_OF_WEIGHTS * self.weights)

    def room(self, most: float | None = None) -> float | None:
        """Return how many bytes the notebooks that run at once may hold together; None where nobody need count.

        Parameters
        ----------
        most : float, optional
            That all processes are allowed, those that execute them as well; all that is free by default.

        Raises
        ------
        InputError
            If there is none for a single one.
        """
        if not self.large:  # any machine has that, and what is free for a moment says little
            return most
        needed = self.memory + OWN
        free = float(_free_memory("a notebook", needed, "-p weights mini"))
        allowed = free if most is None or free < most else most
        if allowed < needed:
            raise InputError(
                f"One of the notebooks takes {size_text(round(needed))} of memory alone, and all may take "
                f"{size_text(round(allowed))}; give more with --memory-in-all."
            )
        return allowed - OWN

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

    def statement(self, jobs: int, room: float) -> str:
        """Return what is needed, in a line."""
        at_once = "one notebook at a time" if jobs == 1 else f"up to {jobs} notebooks at once"
        return (
            f"Weights of {size_text(round(self.weights))}: {at_once} in {size_text(round(room))} of memory, one up to "
            f"{size_text(round(self.memory))}; {size_text(round(self.disk))} of exports in all."
        )


def needs(runs: Mapping[str, RunRecord]) -> Needs:
    """Return what is needed by the notebooks, each as it is to be run."""
    sizes = {name: _bytes(str(run.parameters.get("weights", SMALL[0]))) for name, run in runs.items()}
    weights = sorted([SMALL_BYTES, *sizes.values()])[-1]
    costs = {name: expected_cost(run) for name, run in runs.items()}
    memory = {
        name: MARGIN * 1e9 * cost.memory if cost.memory else MEMORY + MEMORY_OF_WEIGHTS * sizes[name]
        for name, cost in costs.items()
    }
    return Needs(weights, memory, {name: cost.seconds for name, cost in costs.items() if cost.seconds})


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
    needed = Needs(_bytes(weights), {})
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
