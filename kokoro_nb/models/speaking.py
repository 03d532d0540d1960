"""The model as the programs of hosts in the field that have one graph, or two.

The one takes token ids, a style and a speed to audio in a graph of dynamic length. Nothing is padded, so that every
length is exact, and nothing but the text, the style and the speed is an input: the source's noise is in the graph, out
of a bank that is read cyclically, or drawn by the runtime at each call.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import frame_cuts, noise, token_cuts
from kokoro_nb.models.architecture import HARMONICS, SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.complete import TextPart, WholeTextStage
from kokoro_nb.models.padding import open_length

NoiseOrigin = Literal["bank", "drawn"]


class TextToAudio(WholeTextStage):
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

    output_names = ("waveform", "duration")
    bank: Tensor

    def __init__(self, model: KModel, origin: NoiseOrigin = "bank", seed: int = 0, samples: int = SAMPLE_RATE):
        if origin not in get_args(NoiseOrigin):
            raise InputError(f"There is no noise '{origin}'; use one of {', '.join(get_args(NoiseOrigin))}.")
        if samples < 1:
            raise InputError(f"A bank of {samples} samples holds no noise; give a whole number above 0.")
        super().__init__(model)
        self.decoder, self.origin = model.decoder, origin
        source = torch.Generator().manual_seed(seed)
        self.register_buffer("bank", torch.randn(samples, HARMONICS, generator=source))

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
        audio = frame_cuts.decoded(self.decoder, asr, f0, n, style[:, :STYLE], drawn)
        return audio.reshape(-1), lasting.reshape(-1)

    def frame_features(self, lasting: Tensor, d: Tensor, t_en: Tensor, style: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the decoder's asr, f0 and n for tokens that last so long."""
        token = spread(lasting)
        f0, n = frame_cuts.prosody(self.predictor, d[:, token].transpose(1, 2), style[:, STYLE:])
        return t_en[:, :, token], f0, n

    def noise(self, f0: Tensor) -> Tensor:
        """Return the noise for a pitch of (1, 2 * frames): (1, 600 * frames, 9), standard deviations."""
        samples = f0.shape[1] * (SAMPLES_PER_FRAME // 2)
        if self.origin == "drawn":
            return torch.randn(1, samples, HARMONICS)
        return self.bank[torch.arange(samples) % self.bank.shape[0]][None]


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


class DurationProgram(TextPart):
    """Token ids to durations and the features that are spread over the frames."""

    output_names = ("durations", "d")

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
            encoded = self.bert_encoder(token_cuts.contextual(self.bert, tokens, text_mask))
            d = token_cuts.duration_features(self.predictor.text_encoder, encoded, voice, padding)
            lasting = token_cuts.durations(self.predictor, d, speed, padding)
        return lasting.reshape(-1), F.pad(d, (0, self.missing)) if self.missing else d


class SynthesizerProgram(TextToAudio):
    """What the first program gave, spread over the frames by the host, to audio.

    It needs the patch ``explicit_noise``; the noise is that of `TextToAudio`.

    Attributes
    ----------
    shows_har : bool
        Return `har` as a second output, for a comparison number by number.
    """

    output_names: tuple[str, ...] = ("audio",)  # type: ignore[assignment]
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
            asr = token_cuts.text_features(self.text_encoder, tokens, text_mask.logical_not())[:, :, indices]
        features, s = d[:, indices, : width(self)].transpose(1, 2), voice[:, :STYLE]
        with open_length(self):
            f0, n = frame_cuts.prosody(self.predictor, features, voice[:, STYLE:])
            with noise.explicit(noise.of_harmonics(self.noise(f0))):
                har = frame_cuts.harmonics(self.decoder.generator, f0)
            audio = frame_cuts.from_har(self.decoder, asr, f0, n, s, har).reshape(1, 1, -1)
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
