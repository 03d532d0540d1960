"""02: which runtimes take the decoder, and how far they are from PyTorch."""

from collections.abc import Sequence
from dataclasses import dataclass

from kokoro_nb.listening.spectrum import SpectralAgreement, spectral_agreement
from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched


def from_har(kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str], calls: int = 3) -> tuple[SurveyRow, ...]:
    """Export the decoder from `har` on, with all export patches, to each of `backends`: see `locate.survey`."""
    with patched(kokoro.model, EXPORT_PATCHES):
        inputs = stages.from_har_inputs(kokoro.model.decoder, case.decoder_inputs(frames))
        return survey(stages.FromHarStage(kokoro.model.decoder), inputs, backends, calls)


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
    every = ["eager", *backends, "eager-float64"]
    with patched(kokoro.model, EXPORT_PATCHES):
        return DecoderSurvey(survey(stages.DecoderStage(kokoro.model.decoder), case.decoder_inputs(frames), every))
