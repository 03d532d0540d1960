"""What each patch is for on a backend, as it was tried, and where the catalogue disagrees."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kokoro_nb.findings import Verdict
from kokoro_nb.models.patches import PATCHES
from kokoro_nb.studies.repair.patch_trials import PatchTrial

NEEDED, ONE_WAY, HARMLESS, HARMFUL, UNKNOWN = "needed", "one of several ways", "harmless", "fails with it", "unknown"


@dataclass(frozen=True)
class PatchUse:
    """What one patch is for on one backend, as it was tried.

    Attributes
    ----------
    kind : str
        ``needed``: in the minimal set, and neither that set nor the full one works without it. ``one of several ways``:
        the minimal set fails without it, and the full set does not. ``harmless``: the minimal set works with it as well
        as without. ``fails with it``. ``unknown``: no set works, so that nothing is known.
    outcome, how : str
        How it fails, without it or with it: in a word, and with its figure or its error.
    speed : float or None
        For a patch that is harmless, time of a call with it over time without it, summed over the parts that were run.
    """

    patch: str
    kind: str
    outcome: str = ""
    how: str = ""
    speed: float | None = None

    @property
    def cell(self) -> str:
        """What a table of verdicts shows of it."""
        if self.kind == HARMLESS:
            return f"pass: {HARMLESS}"
        label = {HARMFUL: "fail: with it", UNKNOWN: "unknown: nothing works"}.get(self.kind, self.kind)
        return f"{label}: {self.outcome}"


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
    uses : tuple of PatchUse
        One for every patch of the catalogue.
    """

    backend: str
    absent: str = ""
    unexecuted: str = ""
    start: PatchTrial | None = None
    unpatched: PatchTrial | None = None
    found: PatchTrial | None = None
    left_out: tuple[PatchTrial, ...] = ()
    uses: tuple[PatchUse, ...] = ()
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
        if self.minimal is None:
            return []
        return [
            {"backend": self.backend, "left out": patch, "outcome": trial.kind, "how": trial.how}
            for patch, trial in zip(self.minimal, self.left_out, strict=True)
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all of it, for a machine to read."""
        return {**asdict(self), "minimal": self.minimal, "proven": self.proven, "verdict": self.verdict}


@dataclass(frozen=True)
class Uses:
    """The repairs of the runtimes that are here, in order: the tables and the figure of what each patch is for."""

    repairs: tuple[PatchRepair, ...]

    def works_unpatched(self) -> dict[str, bool]:
        """Return, by backend, whether the export works without any patch."""
        return {one.backend: one.unpatched is not None and one.unpatched.works for one in self.repairs}

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each patch of the catalogue, with what it is for on each runtime."""
        return [
            {"patch": patch, **{one.backend: one.uses[number].cell for one in self.repairs}}
            for number, patch in enumerate(PATCHES)
        ]

    def disagreements(self) -> list[dict[str, str]]:
        """Return where the catalogue's `needed_by` differs from what was tried.

        The catalogue also names a backend that is only slow without a patch: there the speed is given. What is noted
        for ``coreml`` holds for every backend whose name begins so, as in `models.patches.needed`.
        """
        rows = []
        for one in self.repairs:
            for use in one.uses:
                written = any(one.backend.startswith(name) for name in PATCHES[use.patch].needed_by)
                if use.kind != UNKNOWN and written != (use.kind in (NEEDED, ONE_WAY)):
                    says = "needed" if written else "not needed"
                    speed = "" if use.speed is None else f", a call takes {use.speed:.2g} times as long with it"
                    row = {"backend": one.backend, "patch": use.patch, "catalogue": says, "tried": f"{use.kind}{speed}"}
                    rows.append({**row, "how": use.how})
        return rows

    def proof(self) -> list[dict[str, Any]]:
        """Return a row for each patch of a smallest set, with how the rest of the set fails."""
        return [row for one in self.repairs for row in one.proof()]

    def parts(self) -> list[dict[str, Any]]:
        """Return a row for each part of the decoder with the smallest set, with units in its keys."""
        return [
            {
                "backend": one.backend,
                "stage": outcome.stage,
                "outcome": outcome.kind,
                "finite": outcome.finite,
                "error (of peak)": outcome.of_peak,
                "later calls differ by": outcome.drift,
            }
            for one in self.repairs
            for outcome in (one.found.outcomes if one.found else ())
        ]


def uses(repairs: Sequence[PatchRepair]) -> Uses:
    """Return the repairs of the runtimes that are here, as tables and a figure."""
    return Uses(tuple(one for one in repairs if not one.absent))
