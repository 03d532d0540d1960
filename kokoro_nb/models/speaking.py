"""The complete model as one graph, of static shape or as hosts in the field run it, and in two: text, then frames.

`TextToAudio` takes token ids, a style and a speed to audio in a graph of dynamic length. Nothing is padded, so that
every length is exact, and nothing but the text, the style and the speed is an input: the noise of the source is in the
graph, out of a bank that is read cyclically, or drawn by the runtime at each call.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import model_cuts, noise
from kokoro_nb.models.architecture import HARMONICS, SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.padding import open_length
from kokoro_nb.models.stages import PipelineStep


class TextPart(PipelineStep, parts=("bert", "bert_encoder", "predictor", "text_encoder")):
    """All of the model but its decoder; the parts are shared, not copied, under the names that they have there."""


class DurationStage(TextPart, output_names=("pred_dur", "d", "t_en")):
    """Token ids to durations and features in one program: all that is done before the number of frames is known.

    It is exact in a buffer of static length, whatever stands behind the text.
    """

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
        return model_cuts.predicted(self, ids, ref_s[:, STYLE:], speed, length=length)


class WholeTextStage(TextPart, output_names=("pred_dur", "d", "t_en")):
    """`DurationStage` for a text that fills its buffer: nothing in the graph hangs on how long that is."""

    def forward(self, ids: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, ...]:
        """Predict durations and what they spread over the frames: see `DurationStage.forward`."""
        return self.text_features(ids, ref_s, speed)

    def text_features(self, ids: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return durations, (1, tokens) int64, and both kinds of features of each token."""
        return model_cuts.predicted(self, ids, ref_s[:, STYLE:], speed, torch.ones_like(ids))


class CompleteStage(TextPart, output_names=("audio", "audio_length_samples", "pred_dur")):
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
        style, tokens = ref_s[:, STYLE:], attention_mask.sum(dim=1) if self.exact else None
        lasting, d, t_en = model_cuts.predicted(self, ids, style, speed, attention_mask, tokens)
        total, spread = lasting.sum(dim=1), model_cuts.alignment(lasting, self.frames).to(d.dtype)
        length = total.clamp(0, self.frames) if self.exact else None  # TVM refuses whole numbers with one bound
        f0, n = model_cuts.prosody(self.predictor, d.transpose(1, 2) @ spread, style, length)
        drawn = noise.of_harmonics(harmonic_noise, None if self.exact else initial_phase)
        audio = model_cuts.decoded(self.decoder, t_en @ spread, f0, n, ref_s[:, :STYLE], drawn, length)
        return audio, SAMPLES_PER_FRAME * total, lasting


NoiseOrigin = Literal["bank", "drawn"]


class TextToAudio(WholeTextStage, output_names=("waveform", "duration")):
    """The whole model for one text of any length.

    It needs the patch ``explicit_noise``; exporters want the other `EXPORT_PATCHES` too.

    Parameters
    ----------
    model : kokoro.model.KModel
        Its parts are shared, not copied, under the names that they have there.
    origin : {"bank", "drawn"}
        ``bank``: the noise is the buffer `bank`, read cyclically, so that equal calls give equal audio. ``drawn``: the
        runtime draws it, so that no two calls are alike, as in PyTorch.
    seed : int
        Of the bank.
    samples : int
        Length of the bank; 24 000, 1 s, by default.

    Raises
    ------
    InputError
        If `origin` is unknown or the bank empty.
    """

    bank: Tensor

    def __init__(self, model: KModel, origin: NoiseOrigin = "bank", seed: int = 0, samples: int = SAMPLE_RATE):
        if origin not in get_args(NoiseOrigin):
            raise InputError(f"There is no noise '{origin}'; use one of {', '.join(get_args(NoiseOrigin))}.")
        if samples < 1:
            raise InputError(f"A bank of {samples} samples holds no noise; give a whole number above 0.")
        super().__init__(model)
        self.decoder, self.origin = model.decoder, origin
        self.register_buffer("bank", noise.bank(seed, samples))

    def forward(self, input_ids: Tensor, style: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        """Speak.

        Parameters
        ----------
        input_ids : torch.Tensor, shape (1, tokens), int64
            Token ids between two 0.
        style : torch.Tensor, shape (1, 256)
            The voice's row for this text.
        speed : torch.Tensor, shape (1,)
            Divides the durations.

        Returns
        -------
        waveform : torch.Tensor, shape (600 * frames,)
            24 kHz, full scale 1.
        duration : torch.Tensor, shape (tokens,), int64, frames
        """
        lasting, d, t_en = self.text_features(input_ids, style, speed)
        asr, f0, n = self.frame_features(lasting, d, t_en, style)
        drawn = noise.of_harmonics(self.noise(f0))
        audio = model_cuts.decoded(self.decoder, asr, f0, n, style[:, :STYLE], drawn)
        return audio.reshape(-1), lasting.reshape(-1)

    def frame_features(self, lasting: Tensor, d: Tensor, t_en: Tensor, style: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the decoder's asr, f0 and n for tokens that last so long."""
        token = spread(lasting)
        f0, n = model_cuts.prosody(self.predictor, d[:, token].transpose(1, 2), style[:, STYLE:])
        return t_en[:, :, token], f0, n

    def noise(self, f0: Tensor) -> Tensor:
        """Return the noise for a pitch of (1, 2 * frames): (1, 600 * frames, 9), standard deviations."""
        samples = f0.shape[1] * (SAMPLES_PER_FRAME // 2)
        return noise.cyclic(self.bank, samples) if self.origin == "bank" else torch.randn(1, samples, HARMONICS)


def spread(lasting: Tensor) -> Tensor:
    """Return the number of the token that each frame belongs to, (frames,) int64: `torch.repeat_interleave` in
    operators that every runtime has.

    Parameters
    ----------
    lasting : torch.Tensor, shape (1, tokens), int64, frames

    Examples
    --------
    >>> spread(torch.tensor([[2, 1, 3]])).tolist()
    [0, 0, 1, 2, 2, 2]
    """
    ends = lasting.cumsum(dim=1)[0]
    frame = torch.arange(ends[-1])  # type: ignore[call-overload]  # a tensor, so that an export leaves it to the data
    return (frame[:, None] >= ends[None]).sum(dim=1)


FEATURES = 640  # of each token, as the hosts of such programs have it; a narrow model has fewer, and zeros behind


class DurationProgram(TextPart, output_names=("durations", "d")):
    """Token ids to durations and the features that are spread over the frames."""

    def __init__(self, model: KModel):
        super().__init__(model)
        self.missing = FEATURES - width(model)

    def forward(self, tokens: Tensor, text_mask: Tensor, voice: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        """Predict durations.

        Parameters
        ----------
        tokens : torch.Tensor, shape (1, tokens), int64
        text_mask : torch.Tensor, shape (1, tokens), bool
            True where there is a token, both pads among them.
        voice : torch.Tensor, shape (1, 128)
            The second half of the voice's row.
        speed : torch.Tensor, shape (1,)

        Returns
        -------
        durations : torch.Tensor, shape (tokens,), int64, frames
            0 behind the text.
        d : torch.Tensor, shape (1, tokens, 640)
            Zeros behind the text.
        """
        padding = text_mask.logical_not()
        with open_length(self, text_mask):
            encoded = self.bert_encoder(model_cuts.contextual(self.bert, tokens, text_mask))
            d = model_cuts.duration_features(self.predictor.text_encoder, encoded, voice, padding)
            lasting = model_cuts.durations(self.predictor, d, speed, padding)
        return lasting.reshape(-1), F.pad(d, (0, self.missing)) if self.missing else d


class SynthesizerProgram(TextToAudio, output_names=("audio",)):
    """What the first program gave, spread over the frames by the host, to audio.

    It needs the patch ``explicit_noise``; the noise is that of `TextToAudio`.

    Attributes
    ----------
    shows_har : bool
        Return `har` as a second output, for a comparison number by number.
    """

    shows_har = False

    def forward(  # type: ignore[override]
        self, tokens: Tensor, text_mask: Tensor, indices: Tensor, d: Tensor, voice: Tensor
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Speak.

        Parameters
        ----------
        tokens, text_mask, d : torch.Tensor
            See `DurationProgram`.
        indices : torch.Tensor, shape (frames,), int64
            The token that each frame belongs to.
        voice : torch.Tensor, shape (1, 256)

        Returns
        -------
        torch.Tensor, shape (1, 1, 600 * frames)
            24 kHz, full scale 1.
        """
        with open_length(self, text_mask):
            asr = model_cuts.text_features(self.text_encoder, tokens, text_mask.logical_not())[:, :, indices]
        features, s = d[:, indices, : width(self)].transpose(1, 2), voice[:, :STYLE]
        with open_length(self):
            f0, n = model_cuts.prosody(self.predictor, features, voice[:, STYLE:])
            with noise.explicit(noise.of_harmonics(self.noise(f0))):
                har = model_cuts.harmonics(self.decoder.generator, f0)
            audio = model_cuts.from_har(self.decoder, asr, f0, n, s, har).reshape(1, 1, -1)
        return (audio, har) if self.shows_har else audio


def width(model: KModel) -> int:
    """Return how many features the duration encoder gives for each token.

    Raises
    ------
    InputError
        If they are more than a host has room for.
    """
    features: int = model.predictor.lstm.input_size
    if features > FEATURES:
        raise InputError(f"The duration encoder gives {features} features, and hosts have room for {FEATURES}.")
    return features
