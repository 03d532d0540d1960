"""Token ids, a style and a speed to audio in one graph of dynamic length, as programs in the field call it.

Nothing is padded, so that every length is exact, and nothing but the text, the style and the speed is an input: the
source's noise is in the graph, out of a bank that is read cyclically, or drawn by the runtime at each call.
"""

from typing import Literal, get_args

import torch
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import frame_cuts, noise
from kokoro_nb.models.architecture import HARMONICS, SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.complete import WholeTextStage

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
        lasting, asr, f0, n = self.features(input_ids, style, speed)
        drawn = noise.of_harmonics(self.noise(f0))
        audio = frame_cuts.decoded(self.decoder, asr, f0, n, style[:, :STYLE], drawn)
        return audio.reshape(-1), lasting.reshape(-1)

    def features(self, input_ids: Tensor, style: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return durations, (1, tokens) int64, and the decoder's asr, f0 and n."""
        lasting, d, t_en = self.text_features(input_ids, style, speed)
        return lasting, *self.frame_features(lasting, d, t_en, style)

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
