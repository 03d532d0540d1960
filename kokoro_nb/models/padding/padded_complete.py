"""The complete model in one graph of static shape, exact for any text and any number of frames that have room in it."""

from torch import Tensor

from kokoro_nb.models import complete
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.padding.padded_decoder_stage import PaddedDecoderStage
from kokoro_nb.models.padding.padded_encoders import PaddedDurationStage
from kokoro_nb.models.padding.padded_prosody import PaddedProsody


class PaddedCompleteStage(complete.CompleteStage):
    """`complete.CompleteStage` whose answer does not depend on how much room there is.

    Both lengths are computed in the graph: of the text from its mask, of the audio from the durations. It needs the
    patch ``explicit_noise``, and exporters want the other `EXPORT_PATCHES` too.
    """

    def forward(  # type: ignore[override]
        self,
        ids: Tensor,
        attention_mask: Tensor,
        ref_s: Tensor,
        speed: Tensor,
        initial_phase: Tensor,
        harmonic_noise: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Speak.

        Parameters
        ----------
        ids, attention_mask, ref_s, speed, initial_phase, harmonic_noise : torch.Tensor
            See `complete.CompleteStage.forward`; behind the text any ids that there are. ``initial_phase`` is not read:
            no sample depends on it.

        Returns
        -------
        audio : torch.Tensor, shape (1, 600 * frames)
            24 kHz, full scale 1; zeros behind what is spoken. A text that is too long for ``frames`` is cut.
        audio_length_samples : torch.Tensor, shape (1,), int64
            600 times the sum of the durations: more than there is audio where the text was cut.
        pred_dur : torch.Tensor, shape (1, tokens), int64, frames
            Duration of each token, 0 for padding.
        """
        tokens = attention_mask.sum(dim=1)
        lasting, d, t_en = PaddedDurationStage.forward(self, ids, tokens, ref_s, speed)  # type: ignore[arg-type]
        total = lasting.sum(dim=1)
        length, spread = total.clamp(max=self.frames), complete.alignment(lasting, self.frames).to(d.dtype)
        f0, n = PaddedProsody.forward(self.predictor, d.transpose(1, 2) @ spread, ref_s, length)
        style = ref_s[:, :STYLE]
        audio = PaddedDecoderStage.forward(self, t_en @ spread, f0, n, style, harmonic_noise, length)  # type: ignore[arg-type]
        return audio, SAMPLES_PER_FRAME * total, lasting
