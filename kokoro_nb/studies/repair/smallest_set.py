"""The smallest set of patches that makes a backend's export of the decoder work, proven by leaving each of them out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.search import smallest
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, PATCHES, require_known
from kokoro_nb.studies.repair.patch_trials import PatchBench, PatchTrial

Attempt = Callable[[tuple[str, ...], bool], PatchTrial]


@dataclass(frozen=True)
class PatchRepair:
    """What was found for one backend.

    Attributes
    ----------
    absent : str
        Why nothing was tried; empty if it was.
    unexecuted : str
        Why what was built was not run: then the set makes the export succeed, and of the numbers nothing is known.
    start, unpatched : PatchTrial or None
        The full set, and no patch at all, in the smaller parts.
    found : PatchTrial or None
        The minimal set, in every stage; None if no set was found that works.
    left_out : tuple of PatchTrial
        For each patch of the minimal set, in order, the set without it: the proof.
    """

    backend: str
    absent: str = ""
    unexecuted: str = ""
    start: PatchTrial | None = None
    unpatched: PatchTrial | None = None
    found: PatchTrial | None = None
    left_out: tuple[PatchTrial, ...] = ()
    trials: int = 0

    @property
    def minimal(self) -> tuple[str, ...] | None:
        """The minimal set; None if there is none."""
        return self.found.patches if self.found else None

    @property
    def proven(self) -> bool:
        """Whether the set works in every stage and fails as soon as any one patch is left out."""
        return self.found is not None and self.found.works and not any(trial.works for trial in self.left_out)

    @property
    def verdict(self) -> Verdict:
        """``pass`` if the set is found and proven, ``skip`` if the runtime is absent, else ``fail``."""
        return "skip" if self.absent else "pass" if self.proven else "fail"

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        row: dict[str, Any] = {"backend": self.backend, "verdict": self.verdict}
        if self.absent:
            return {**row, "how": self.absent}
        row["patches"] = "none works" if self.minimal is None else ", ".join(self.minimal) or "none is needed"
        return {**row, "all of them": self.start.how or "works" if self.start else "", "sets tried": self.trials}

    def proof(self) -> list[dict[str, Any]]:
        """Return the rows of a table: each patch of the set that is left out, and how the rest fails."""
        return [
            {"backend": self.backend, "left out": patch, "outcome": trial.kind, "how": trial.how}
            for patch, trial in zip(self.minimal or (), self.left_out, strict=True)
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all of it, for a machine to read."""
        return {**asdict(self), "minimal": self.minimal, "proven": self.proven, "verdict": self.verdict}


def repair(
    model: KModel, case: Case, name: str, frames: int = 8, patches: Sequence[str] = EXPORT_PATCHES, limit: float = 1e-3
) -> PatchRepair:
    """Search the smallest set of patches with which the export of the decoder to a backend works.

    A set works, see `patch_trials`, if every stage exports, runs, is finite, repeats itself, and agrees with the
    model without patches where the numbers are well conditioned. Sets are tried on the smaller parts first; the set
    that is found is confirmed on the whole, and if it does not hold there, the search is done again on the whole.

    Parameters
    ----------
    patches : sequence of str
        What to start from.

    Raises
    ------
    InputError
        If there is no such backend or patch, or rounding alone hides every error.
    """
    from tqdm import tqdm

    require_known(patches)
    absent = backend(name).available()
    if absent:
        return PatchRepair(name, absent=absent)
    bench = PatchBench(model, case, name, frames, limit)
    with tqdm(desc=f"repair {name}", unit="set", disable=None) as bar:

        def attempt(names: tuple[str, ...], confirm: bool) -> PatchTrial:
            bar.set_postfix_str(f"{len(names)} patches{', whole' if confirm else ''}")
            trial = bench.trial(names, confirm)
            bar.update()
            return trial

        return search(name, attempt, patches, backend(name).executes() or "")


def search(name: str, attempt: Attempt, patches: Sequence[str] = EXPORT_PATCHES, unexecuted: str = "") -> PatchRepair:
    """Do the search of `repair` with any way to try a set.

    Parameters
    ----------
    attempt : callable
        Tries a set, in the order of the catalogue; its second argument says whether on the largest stages too.
    patches : sequence of str
        What to start from.
    unexecuted : str
        Why nothing is run, where nothing is.
    """
    tried: set[tuple[str, ...]] = set()

    @cache
    def tries(names: tuple[str, ...], confirm: bool) -> PatchTrial:
        tried.add(names)
        return attempt(names, confirm)

    def failing(names: tuple[str, ...]) -> PatchTrial:
        # the largest stages only if the smaller parts work: what fails in a part fails
        trial = tries(names, False)
        return tries(names, True) if trial.works else trial

    ordered = tuple(patch for patch in PATCHES if patch in patches)
    starts = [ordered, *(_without(ordered, patch) for patch in ordered)]  # where one of them does harm, all but one
    start, unpatched, found = tries(ordered, False), tries((), False), None
    for works in (lambda names: tries(names, False).works, lambda names: failing(names).works):
        begin = next((names for names in starts if works(names)), None)
        if begin is None:
            break
        confirmed = tries(smallest(begin, works), True)
        if confirmed.works:
            found = confirmed
            break
    needed = found.patches if found else ()
    left_out = tuple(failing(_without(needed, patch)) for patch in needed)
    return PatchRepair(name, "", unexecuted, start, unpatched, found, left_out, len(tried))


def _without(names: tuple[str, ...], left: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != left)
