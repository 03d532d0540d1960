"""The complete model, from token ids to audio, as one graph of static shape, and the part of it before the frames."""

import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models import frame_cuts, noise, token_cuts
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.case import Case


class TextPart(nn.Module):
    """All of the model but its decoder; the parts are shared, not copied, under the names that they have there."""

    def __init__(self, model: KModel):
        super().__init__()
        self.bert, self.bert_encoder = model.bert, model.bert_encoder
        self.predictor, self.text_encoder = model.predictor, model.text_encoder


class DurationStage(TextPart):
    """Token ids to durations and features in one program: all that is done before the number of frames is known.

    It is exact in a buffer of static length, whatever stands behind the text.
    """

    output_names = ("pred_dur", "d", "t_en")

    def forward(self, ids: Tensor, length: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Predict durations and what they spread over the frames.

        Parameters
        ----------
        ids : torch.Tensor, shape (1, tokens), int64
            Token ids; behind the text any that there are.
        length : torch.Tensor, shape (1,), int64, tokens
            How many tokens the text has, the two that frame it among them.
        ref_s : torch.Tensor, shape (1, 256)
            Voice.
        speed : torch.Tensor, shape (1,)
            Divides the durations.

        Returns
        -------
        pred_dur : torch.Tensor, shape (1, tokens), int64, frames
            0 behind the text.
        d : torch.Tensor, shape (1, tokens, hidden + 128)
            Features of the duration encoder, zeros behind the text.
        t_en : torch.Tensor, shape (1, hidden, tokens)
            Text features, zeros behind the text.
        """
        return token_cuts.predicted(self, ids, ref_s[:, STYLE:], speed, length=length)


class WholeTextStage(TextPart):
    """`DurationStage` for a text that fills its buffer: nothing in the graph hangs on how long that is."""

    output_names: tuple[str, ...] = ("pred_dur", "d", "t_en")

    def forward(self, ids: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, ...]:
        """Predict durations and what they spread over the frames: see `DurationStage.forward`."""
        return self.text_features(ids, ref_s, speed)

    def text_features(self, ids: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return durations, (1, tokens) int64, and both kinds of features of each token."""
        return token_cuts.predicted(self, ids, ref_s[:, STYLE:], speed, torch.ones_like(ids))


class CompleteStage(TextPart):
    """Token ids to audio in one graph, for a fixed number of tokens and of frames.

    It needs the patch ``explicit_noise`` for its noise inputs to be read; exporters want the other `EXPORT_PATCHES`
    too. Where the text has as many tokens as there is room for and its durations add up to `frames`, this is the
    original model to rounding. In more room **padding leaks** unless it is `exact`: behind a shorter text the backward
    LSTMs start in the padding, so durations and features change; behind fewer frames the LSTM over frames and AdaIN's
    statistics read the empty tail, so pitch, energy and audio change. A text that is too long for `frames` is cut; then
    ``audio_length_samples``, which counts all that was predicted, is more than there is audio.

    Parameters
    ----------
    model : kokoro.model.KModel
        Its parts are shared, not copied, under the names that they have there.
    frames : int
        Frames of the decoder, 40 per second.
    exact : bool
        Whether the answer does not depend on how much room there is. The graph computes both lengths: of the text from
        its mask, of the audio from the durations.

    Raises
    ------
    InputError
        If `frames` is below 2: an instance norm has no variance over one.

    Notes
    -----
    ExecuTorch and TVM (1.5.1 and 0.27) have no recurrent operator and unroll each LSTM, the one over frames too: their
    graphs, and the time that lowering takes, grow with the number of tokens and of frames.
    """

    output_names: tuple[str, ...] = ("audio", "audio_length_samples", "pred_dur")

    def __init__(self, model: KModel, frames: int, exact: bool = False):
        if frames < 2:
            raise InputError(f"The model cannot compute {frames} frames; give a whole number above 1.")
        super().__init__(model)
        self.decoder, self.frames, self.exact = model.decoder, frames, exact

    def forward(
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
        ids : torch.Tensor, shape (1, tokens), int64
            Token ids between two 0, then 0 as padding.
        attention_mask : torch.Tensor, shape (1, tokens), int64
            1 for each token, 0 for padding.
        ref_s : torch.Tensor, shape (1, 256)
            Voice: style of the decoder, then of the predictor.
        speed : torch.Tensor, shape (1,)
            Divides the durations.
        initial_phase : torch.Tensor, shape (1, 9), cycles
            See `noise.Noise`: no sample depends on it; the exact form does not read it.
        harmonic_noise : torch.Tensor, shape (1, 600 * frames, 9), standard deviations
            See `noise.Noise`.

        Returns
        -------
        audio : torch.Tensor, shape (1, 600 * frames)
            24 kHz, full scale 1; what follows ``audio_length_samples`` is no speech, and zeros in the exact form.
        audio_length_samples : torch.Tensor, shape (1,), int64
            600 times the sum of the durations.
        pred_dur : torch.Tensor, shape (1, tokens), int64, frames
            Duration of each token, 0 for padding.
        """
        asr, f0, n, lasting, total = self.features(ids, attention_mask, ref_s, speed)
        drawn = noise.of_harmonics(harmonic_noise, None if self.exact else initial_phase)
        audio = frame_cuts.decoded(self.decoder, asr, f0, n, ref_s[:, :STYLE], drawn, self._length(total))
        return audio, SAMPLES_PER_FRAME * total, lasting

    def features(self, ids: Tensor, attention_mask: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, ...]:
        """Return what the decoder needs, from `forward`'s inputs.

        Returns
        -------
        asr : torch.Tensor, shape (1, hidden, frames)
            Text features, 0 behind the text.
        f0, n : torch.Tensor, shape (1, 2 * frames)
            Pitch (Hz) and energy, 80/s.
        pred_dur : torch.Tensor, shape (1, tokens), int64, frames
            Duration of each token, 0 for padding.
        total : torch.Tensor, shape (1,), int64, frames
            Their sum.
        """
        style, tokens = ref_s[:, STYLE:], attention_mask.sum(dim=1) if self.exact else None
        lasting, d, t_en = token_cuts.predicted(self, ids, style, speed, attention_mask, tokens)
        total, spread = lasting.sum(dim=1), token_cuts.alignment(lasting, self.frames).to(d.dtype)
        f0, n = frame_cuts.prosody(self.predictor, d.transpose(1, 2) @ spread, style, self._length(total))
        return t_en @ spread, f0, n, lasting, total

    def _length(self, total: Tensor) -> Tensor | None:
        """Return how many frames are valid of a text that lasts `total`, where that is to be known."""
        return total.clamp(0, self.frames) if self.exact else None  # TVM refuses whole numbers with one bound


def complete_inputs(case: Case) -> dict[str, Tensor]:
    """Return the inputs of `CompleteStage` for an utterance, without padding, on the noise that was drawn for it."""
    t = case.tensors
    given = {"ids": t["ids"], "attention_mask": torch.ones_like(t["ids"]), "ref_s": t["ref_s"]}
    noises = {name: t[name] for name in ("initial_phase", "harmonic_noise")}
    return {**given, "speed": torch.tensor([case.speed], dtype=t["ref_s"].dtype), **noises}
