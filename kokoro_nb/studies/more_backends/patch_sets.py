"""The decoder with growing sets of patches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.export.decoder_exports import decoder_rows

PATCH_SETS: dict[str, tuple[str, ...]] = {
    "none": (),
    "explicit_noise": ("explicit_noise",),
    "+ custom_stft": ("explicit_noise", "custom_stft"),
    "all": EXPORT_PATCHES,
}


@dataclass(frozen=True)
class PatchSets:
    """The whole decoder with each of `PATCH_SETS`.

    Attributes
    ----------
    rows : mapping
        Name of the set -> a row for each backend.
    """

    rows: Mapping[str, tuple[SurveyRow, ...]]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each set and backend, with units in its keys."""
        return [{"patches": name, **row.as_dict()} for name, rows in self.rows.items() for row in rows]

    def reached(self) -> dict[str, dict[str, str]]:
        """Return how far each set came on each backend: set -> backend -> verdict and rung."""
        return {
            name: {row.backend: f"{row.verdict}: {row.outcome.partition(':')[0]}" for row in rows}
            for name, rows in self.rows.items()
        }

    def unfit(self) -> dict[str, bool]:
        """Return whether the unpatched decoder shows on each backend that is here what the patches are for.

        It does where the export falls, or where a later call does not give what the first one gave: noise is drawn
        inside. How far its audio is from eager's shows nothing: two draws of noise differ as well.
        """
        taken = {row.backend: row.climb for row in self.rows["none"] if row.climb is not None and not row.unexecuted}
        return {name: one.failure is not None or one.drift not in (None, 0.0) for name, one in taken.items()}


def patch_sets(kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str]) -> PatchSets:
    """Export the whole decoder with each of `PATCH_SETS`."""
    return PatchSets(
        {name: decoder_rows(kokoro, case, frames, backends, patches) for name, patches in PATCH_SETS.items()}
    )
