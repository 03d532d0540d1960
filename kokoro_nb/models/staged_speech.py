"""The model as two programs with the frames between them left to the host: durations, then audio.

Both take any number of tokens and the second any number of frames; what stands behind the text is not read.
"""

import torch.nn.functional as F
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import frame_cuts, noise, token_cuts
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.complete import TextPart
from kokoro_nb.models.open_length import open_length
from kokoro_nb.models.speaking import TextToAudio

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
