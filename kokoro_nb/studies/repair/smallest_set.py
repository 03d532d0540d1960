"""The smallest set of patches that makes a backend's export of the decoder work, proven by leaving each of them out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.locate.search import smallest
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, PATCHES, require_known
from kokoro_nb.studies.repair.patch_trials import PatchBench, PatchTrial
from kokoro_nb.studies.repair.uses import HARMFUL, HARMLESS, NEEDED, ONE_WAY, UNKNOWN, PatchRepair, PatchUse

Attempt = Callable[[tuple[str, ...], bool], PatchTrial]
# two ways to give the noise: `patched` refuses both at once
EXCLUDES = {"explicit_noise": "signal_noise", "signal_noise": "explicit_noise"}


def repair(
    model: KModel,
    case: Case,
    name: str,
    frames: int = 8,
    patches: Sequence[str] = EXPORT_PATCHES,
    limit: float = 1e-3,
    calls: int = 3,
    folder: str | Path | None = None,
) -> PatchRepair:
    """Search the smallest set of patches with which the export of the decoder to a backend works.

    A set works, see `patch_trials`, if every stage exports, runs, is finite, repeats itself, and agrees with the
    model without patches where the numbers are well conditioned. Sets are tried on the smaller parts first; the set
    that is found is confirmed on the whole, and if it does not hold there, the search is done again on the whole. An
    outcome that was recorded is not tried again, so that a search that was interrupted goes on where it was.

    Parameters
    ----------
    patches : sequence of str
        What to start from.
    calls : int
        Calls on each loaded program; any difference between them is a fault.
    folder : path, optional
        For outcomes and artefacts; ``repair`` in the cache by default.

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
    bench = PatchBench(model, case, name, frames, limit, calls, folder)
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
    tries = _Tries(attempt)
    ordered = tuple(patch for patch in PATCHES if patch in patches)
    start, unpatched = tries(ordered), tries(())
    begun, found = _found(ordered, tries)
    if found is None:
        uses = tuple(PatchUse(patch, UNKNOWN, start.kind, start.how) for patch in PATCHES)
        return PatchRepair(name, "", unexecuted, start, unpatched, None, (), uses, tries.count)
    left_out = tuple(tries.failing(_without(found.patches, patch)) for patch in found.patches)
    uses = tuple(_use(patch, found, begun, tries) for patch in PATCHES)
    return PatchRepair(name, "", unexecuted, start, unpatched, found, left_out, uses, tries.count)


@dataclass
class _Tries:
    """Tries sets, each once, and counts them."""

    attempt: Attempt
    known: dict[tuple[tuple[str, ...], bool], PatchTrial] = field(default_factory=dict)

    def __call__(self, names: tuple[str, ...], confirm: bool = False) -> PatchTrial:
        if (names, confirm) not in self.known:
            self.known[names, confirm] = self.attempt(names, confirm)
        return self.known[names, confirm]

    def failing(self, names: tuple[str, ...]) -> PatchTrial:
        """Try the smaller parts, and the largest only if these work: what fails in a part fails."""
        trial = self(names)
        return self(names, True) if trial.works else trial

    @property
    def count(self) -> int:
        return len({names for names, _ in self.known})


def _found(patches: tuple[str, ...], tries: _Tries) -> tuple[tuple[str, ...], PatchTrial | None]:
    """Return the set that was begun with, and the minimal set as it was confirmed; None if no set works."""
    for works in (lambda names: tries(names).works, lambda names: tries.failing(names).works):
        start = next((names for names in _starts(patches) if works(names)), None)
        if start is None:
            break
        confirmed = tries(smallest(start, works), True)
        if confirmed.works:
            return start, confirmed
    return patches, None


def _starts(patches: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the sets to start from: all, or where one of them does harm, all but one."""
    return [patches, *(_without(patches, patch) for patch in patches)]


def _use(patch: str, found: PatchTrial, begun: tuple[str, ...], tries: _Tries) -> PatchUse:
    """Return what `patch` is for, beside the minimal set and in the set that was begun with."""
    minimal = found.patches
    if patch in minimal:
        without = tries.failing(_without(minimal, patch))
        kind = ONE_WAY if tries(_without(begun, patch)).works else NEEDED
        return PatchUse(patch, kind, without.kind, without.how)
    beside = {*minimal, patch} - {EXCLUDES.get(patch, "")}
    within = tries(tuple(name for name in PATCHES if name in beside))
    if not within.works:
        return PatchUse(patch, HARMFUL, within.kind, within.how)
    return PatchUse(patch, HARMLESS, speed=_speed(found.seconds, within.seconds))


def _speed(without: Mapping[str, float], within: Mapping[str, float]) -> float | None:
    shared = [stage for stage in within if stage in without]
    return sum(within[s] for s in shared) / sum(without[s] for s in shared) if shared else None


def _without(names: tuple[str, ...], left: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != left)
