"""10 asks what today's converters, runtimes and debugging tools get wrong by themselves, and which form is right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.defects import DEFECTS, STATES, DefectMeasurement, defect, measure, report_script
from kokoro_nb.faults import nearly_constant
from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched


def defects_today(names: Sequence[str] = ()) -> tuple[DefectMeasurement, ...]:
    """Measure the defects of these names, all of the catalogue where none is named.

    Raises
    ------
    InputError
        If there is no defect of such a name.
    """
    return tuple(measure(each) for each in [defect(name) for name in names] or DEFECTS)


@dataclass(frozen=True)
class PatchSurvey:
    """The same decoder with all patches, and with all but one; a row for each backend.

    Attributes
    ----------
    patch : str
        The one that is left out.
    within, without : tuple of SurveyRow
        With it, and without it.
    """

    patch: str
    within: tuple[SurveyRow, ...]
    without: tuple[SurveyRow, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table, with units in its keys."""
        both = ((f"with {self.patch}", self.within), ("without", self.without))
        return [{"patches": name, **_correlations(row), **row.as_dict()} for name, rows in both for row in rows]


def phase_on_coreml(model: KModel, case: Case, frames: int) -> PatchSurvey:
    """Survey the whole decoder on ``coreml-reference-float32``, with `floor_phase` and without.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    frames : int
        How much of it.
    """

    def surveyed(patches: tuple[str, ...]) -> tuple[SurveyRow, ...]:
        with patched(model, patches):
            stage = stages.DecoderStage(model.decoder)
            return survey(stage, case.decoder_inputs(frames), ["coreml-reference-float32"], calls=1)

    return _both("floor_phase", surveyed)


def norms_on_tvm(model: KModel, case: Case, frames: int, channels: int) -> PatchSurvey:
    """Survey the decoder from `har` in eager and on TVM, with `two_pass_norm` and without.

    Parameters
    ----------
    model, case, frames
        As for `phase_on_coreml`.
    channels : int
        How many channels of ``noise_convs[0]`` are made nearly constant meanwhile.
    """

    def surveyed(patches: tuple[str, ...]) -> tuple[SurveyRow, ...]:
        with nearly_constant(model.decoder.generator.noise_convs[0], channels), patched(model, patches):
            inputs = stages.from_har_inputs(model.decoder, case.decoder_inputs(frames))
            return survey(stages.FromHarStage(model.decoder), inputs, ["eager", "tvm"], calls=2)

    return _both("two_pass_norm", surveyed)


def _both(patch: str, surveyed: Any) -> PatchSurvey:
    without = tuple(name for name in EXPORT_PATCHES if name != patch)
    return PatchSurvey(patch, surveyed(tuple(EXPORT_PATCHES)), surveyed(without))


def _correlations(row: SurveyRow) -> dict[str, Any]:
    if row.eager64 is None or row.floor is None:
        return {}
    return {"correlation": row.eager64.correlation, "floor": row.floor.correlation}
