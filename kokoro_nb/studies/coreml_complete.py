"""07: the complete model as one Core ML graph, and the sets of operators that stay float32."""

from dataclasses import dataclass

import numpy as np
from kokoro.model import KModel

from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.mil import CoreMlReference
from kokoro_nb.listening.spectrum import SpectralAgreement
from kokoro_nb.locate.remedies import Remedy, mixed_precision
from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case, complete_inputs
from kokoro_nb.models.padding import widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import CompleteStage
from kokoro_nb.studies.decoder import DecoderProgram, decoder_program, spectra
from kokoro_nb.traces.statistics import compare

REFERENCE = CoreMlReference("coreml-reference-float32", CoreMl("coreml-float32", "traced program", "float32"))


@dataclass(frozen=True)
class CompleteModel:
    """The complete model on the reference executor.

    Attributes
    ----------
    row : SurveyRow
    spectrum : SpectralAgreement or None
        Of its audio; None if it does not run.
    wrong : int
        Tokens whose durations in eager are not the model's, and frames by which the length is off.
    unmasked : float
        Correlation of the audio with that of the graph that is not given the lengths, both in eager.
    """

    row: SurveyRow
    spectrum: SpectralAgreement
    wrong: int
    unmasked: float


def complete_model(model: KModel, case: Case, spare: int = 0) -> CompleteModel:
    """Convert the complete model to Core ML, and execute it, with room for the tokens and frames of `case`.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    spare : int
        Tokens and frames of more room; the graph then computes both lengths.
    """
    inputs, count = complete_inputs(case), case.tensors["ids"].shape[1]
    wide = inputs | widened({name: inputs[name] for name in ("ids", "attention_mask")}, count + spare)
    wide |= widened({"harmonic_noise": inputs["harmonic_noise"]}, case.frames + spare)
    with patched(model, EXPORT_PATCHES):
        masked, unmasked = (CompleteStage(model, case.frames + spare, exact) for exact in (bool(spare), False))
        rows = survey(masked, wide, ["eager-float64", "eager", REFERENCE], calls=1)
        audio, samples, durations = masked(**wide)
        correlation = compare(unmasked(**wide)[0][:, : audio.shape[1]].detach(), audio.detach()).correlation
    wrong = int((durations[0, :count] != case.tensors["durations"]).sum())
    wrong += abs(int(samples) // SAMPLES_PER_FRAME - case.frames)
    spectrum = spectra(rows).get(REFERENCE.name, SpectralAgreement(np.nan, np.nan))
    return CompleteModel(rows[-1], spectrum, wrong, correlation)


def op_selector(source: DecoderProgram, cure: Remedy) -> str:
    """Return the code of the set that `cure` keeps in float32, to be pasted beside ``coremltools.convert``."""
    return str(mixed_precision(source.program, source.inputs, cure.name.split(", "), None).as_code())
