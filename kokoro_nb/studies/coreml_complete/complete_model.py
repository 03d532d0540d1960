"""The complete model, text to audio, as one Core ML file: converted, executed, and in a buffer."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.mil import operator_types
from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.backends.mil.reference import CoreMlReference
from kokoro_nb.listening.spectrum import SpectralAgreement, spectral_agreement
from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import CompleteStage, complete_inputs
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.parity import compare

SPARE = 12  # tokens, and frames
# the program is traced, as coremltools takes LSTMs from a trace alone
REFERENCE = CoreMlReference("coreml-reference-float32", CoreMl("coreml-float32", "traced program", "float32"))


@dataclass(frozen=True)
class CompleteInBuffer:
    """The complete model with more room than the utterance needs.

    Attributes
    ----------
    row : SurveyRow
        On the reference executor.
    spectrum : SpectralAgreement
        Of its audio, with that of the model in float64.
    tokens, frames : int
        Room of the buffer.
    wrong : int
        Durations that are not the model's, and frames by which the end of the audio is off; in eager PyTorch.
    unmasked : float
        Correlation of the audio with that of a model that is not given the lengths, and reads the padding.
    """

    row: SurveyRow
    spectrum: SpectralAgreement
    tokens: int
    frames: int
    wrong: int
    unmasked: float


@dataclass(frozen=True, eq=False)
class CompleteModel:
    """The complete model of one utterance, converted to Core ML; the file, or where the conversion failed."""

    kokoro: Kokoro
    case: Case
    artifact: Artifact | Failure

    @property
    def failure(self) -> str | None:
        """The error of the conversion; None if it was made."""
        return str(self.artifact) if isinstance(self.artifact, Failure) else None

    def operators(self, other: Mapping[str, int]) -> list[dict[str, int | str]]:
        """Return a row for each type of operator in the file or in `other`, the decoder's, with its number in both."""
        own: Mapping[str, int] = {}
        if isinstance(self.artifact, Artifact):
            assert self.artifact.path is not None
            own = operator_types(self.artifact.path)
        counts = {"decoder from har": other, "complete model": own}
        kinds = sorted(set().union(*counts.values()))
        return [{"operator": kind, **{name: one.get(kind, 0) for name, one in counts.items()}} for kind in kinds]

    def unknown(self, other: Mapping[str, int]) -> list[str]:
        """Return the types of operators in the file or in `other` that the reference executor does not know."""
        return [str(row["operator"]) for row in self.operators(other) if row["operator"] not in OPERATORS]

    def executed(self) -> tuple[SurveyRow, SpectralAgreement]:
        """Execute it on the reference executor, against eager PyTorch; and how far the spectrum of its audio is off."""
        with patched(self.kokoro.model, EXPORT_PATCHES):
            return _surveyed(CompleteStage(self.kokoro.model, self.case.frames), complete_inputs(self.case))

    def in_buffer(self) -> CompleteInBuffer:
        """Execute it with room for `SPARE` more tokens and frames, both lengths computed in the graph."""
        model, case = self.kokoro.model, self.case
        count = case.tensors["ids"].shape[1]
        tokens, frames, inputs = count + SPARE, case.frames + SPARE, complete_inputs(case)
        wide = inputs | widened({name: inputs[name] for name in ("ids", "attention_mask")}, tokens)
        wide |= widened({"harmonic_noise": inputs["harmonic_noise"]}, frames)
        with patched(model, EXPORT_PATCHES):
            row, spectrum = _surveyed(CompleteStage(model, frames, exact=True), wide)
            masked, unmasked = (CompleteStage(model, frames, exact)(**wide) for exact in (True, False))
        wrong = int((masked[2][0, :count] != case.tensors["durations"]).sum())
        wrong += int(masked[1]) // SAMPLES_PER_FRAME - case.frames
        correlation = compare(unmasked[0][:, : masked[0].shape[1]], masked[0]).correlation
        return CompleteInBuffer(row, spectrum, tokens, frames, wrong, correlation)


def _surveyed(stage: CompleteStage, inputs: Mapping[str, Tensor]) -> tuple[SurveyRow, SpectralAgreement]:
    rows = survey(stage, inputs, ["eager-float64", "eager", REFERENCE], calls=1)
    audio = [row.climb.outputs["audio"] if row.climb and row.climb.outputs else np.empty(0) for row in rows]
    return rows[-1], spectral_agreement(*audio)


def complete_model(kokoro: Kokoro, case: Case) -> CompleteModel:
    """Convert the complete model to Core ML, with room for exactly the tokens and frames of `case`."""
    with patched(kokoro.model, EXPORT_PATCHES):
        artifact = REFERENCE.export(CompleteStage(kokoro.model, case.frames), complete_inputs(case))
    return CompleteModel(kokoro, case, artifact)
