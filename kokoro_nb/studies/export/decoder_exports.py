"""The decoder on several runtimes: from `har` on, whole, and with growing sets of patches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kokoro_nb.listening.spectral_agreement import SpectralAgreement, spectral_agreement
from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.studies.export.rungs import Ladder, ladders

PATCH_SETS: dict[str, tuple[str, ...]] = {
    "none": (),
    "explicit_noise": ("explicit_noise",),
    "+ custom_stft": ("explicit_noise", "custom_stft"),
    "all": EXPORT_PATCHES,
}


def from_har(kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str], calls: int = 3) -> tuple[SurveyRow, ...]:
    """Export the decoder from `har` on, with all export patches, to each of `backends`: see `locate.survey`."""
    inputs = _har_inputs(kokoro, case, frames)
    with patched(kokoro.model, EXPORT_PATCHES):
        return survey(stages.FromHarStage(kokoro.model.decoder), inputs, backends, calls)


def ladders_from_har(kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str]) -> tuple[Ladder, ...]:
    """Measure the decoder from `har` on at every rung of the export ladder of each of `backends`: see `rungs`."""
    inputs = _har_inputs(kokoro, case, frames)
    return ladders(kokoro.model, lambda model: stages.FromHarStage(model.decoder), inputs, EXPORT_PATCHES, backends)


@dataclass(frozen=True)
class DecoderSurvey:
    """The whole decoder on several backends, eager in float32 and in float64 among them."""

    rows: tuple[SurveyRow, ...]

    @property
    def spectra(self) -> dict[str, SpectralAgreement]:
        """The spectrum of the audio of each backend that gave any, against eager's in float64."""
        taken = {row.backend: row.climb.outputs for row in self.rows if row.climb and row.climb.outputs}
        audio = {name: next(iter(outputs.values())) for name, outputs in taken.items()}
        exact, single = audio.pop("eager-float64"), audio.pop("eager")
        return {name: spectral_agreement(exact, single, found) for name, found in audio.items()}


def whole_decoder(kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str]) -> DecoderSurvey:
    """Export the whole decoder with all export patches to each of `backends`."""
    names = ["eager", *backends, "eager-float64"]
    return DecoderSurvey(_whole_decoder(kokoro, case, frames, names, EXPORT_PATCHES))


def _whole_decoder(
    kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str], patches: Sequence[str]
) -> tuple[SurveyRow, ...]:
    with patched(kokoro.model, patches):
        return survey(stages.DecoderStage(kokoro.model.decoder), case.decoder_inputs(frames), backends)


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
        {name: _whole_decoder(kokoro, case, frames, backends, patches) for name, patches in PATCH_SETS.items()}
    )


def _har_inputs(kokoro: Kokoro, case: Case, frames: int) -> dict[str, torch.Tensor]:
    with patched(kokoro.model, EXPORT_PATCHES):
        return stages.from_har_inputs(kokoro.model.decoder, case.decoder_inputs(frames))
