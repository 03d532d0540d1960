"""Mimi's decoder in steps: one latent frame in, 80 ms of audio out, with all that it streams as inputs and outputs."""

import torch
import torch.nn.functional as F
from pocket_tts import TTSModel
from pocket_tts.modules.conv import StreamingConv1d, StreamingConvTranspose1d
from pocket_tts.modules.seanet import SEANetDecoder, SEANetResnetBlock
from torch import Tensor, nn

from kokoro_nb.models.pocket.stream_state import STREAMS, streams
from kokoro_nb.models.pocket.transformer import Write, run


def causal(conv: StreamingConv1d, x: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve `x`, (1, channels, length), after the inputs before it; return the output and the last inputs."""
    x = torch.cat([previous, x], dim=2)
    return conv.conv(x), x[..., x.shape[2] - previous.shape[2] :]


def overlapping(convtr: StreamingConvTranspose1d, x: Tensor, partial: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve `x`, (1, channels, length), transposed; return what is finished and what the next call adds to."""
    y, length = convtr.convtr(x), partial.shape[2]
    y = torch.cat([y[..., :length] + partial, y[..., length:]], dim=2)
    finished, rest = y.split([y.shape[2] - length, length], dim=2)
    return finished, rest if convtr.convtr.bias is None else rest - convtr.convtr.bias[:, None]


class MimiStep(nn.Module):
    """One latent frame to audio.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its parts are shared, not copied.
    write : {"one_hot", "scatter"}
        See `transformer.written`.

    Raises
    ------
    InputError
        If the decoder is of another build: see `stream_state.streams`.
    """

    output_names = ("audio", "position", "cache", *STREAMS)
    mean: Tensor
    scale: Tensor

    def __init__(self, model: TTSModel, write: Write = "one_hot"):
        super().__init__()
        streams(model)  # refuses what it does not know
        mimi = model.mimi
        self.register_buffer("mean", model.flow_lm.emb_mean.clone())
        self.register_buffer("scale", model.flow_lm.emb_std.clone())
        self.quantizer, self.upsample = mimi.quantizer, mimi.upsample
        self.decoder_transformer, self.decoder = mimi.decoder_transformer, mimi.decoder
        self.write = write

    def forward(
        self,
        latent: Tensor,
        position: Tensor,
        cache: Tensor,
        upsample: Tensor,
        conv_in: Tensor,
        up_0: Tensor,
        res_0: Tensor,
        up_1: Tensor,
        res_1: Tensor,
        up_2: Tensor,
        res_2: Tensor,
        conv_out: Tensor,
    ) -> tuple[Tensor, ...]:
        """Decode one frame.

        Parameters
        ----------
        latent : torch.Tensor, shape (1, 1, latent width)
            As the sampler leaves it: of mean 0 and deviation 1.
        position, cache, upsample, conv_in, up_0, res_0, up_1, res_1, up_2, res_2, conv_out
            See `stream_state.mimi_state`.

        Returns
        -------
        audio : torch.Tensor, shape (1, 1, 1920)
            24 kHz, full scale 1.
        position, cache, ...
            The new state, in the order of the inputs.
        """
        x = self.quantizer((latent * self.scale + self.mean).transpose(1, 2))
        x, upsample = overlapping(self.upsample.convtr, x, upsample)
        steps = x.shape[2]
        x, cache = self._transform(x, cache, position)
        carried = ((up_0, res_0), (up_1, res_1), (up_2, res_2))
        audio, conv_in, blocks, conv_out = _decode(self.decoder, x, conv_in, carried, conv_out)
        return audio, position + steps, cache, upsample, conv_in, *blocks, conv_out

    def _transform(self, x: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Run the transformer of the decoder: (1, channels, steps) to the same."""
        projected = self.decoder_transformer
        x = x.transpose(1, 2)
        if projected.input_proj is not None:
            x = projected.input_proj(x)
        x, cache = run(projected.transformer, x, cache, position, x.shape[1], self.write)
        return projected.output_projs[0](x).transpose(1, 2), cache


def _decode(
    decoder: SEANetDecoder, x: Tensor, conv_in: Tensor, carried: tuple[tuple[Tensor, Tensor], ...], conv_out: Tensor
) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
    """Run the convolutional decoder: features to audio and what each convolution carries over."""
    first, *blocks, _, last = decoder.model
    x, conv_in = causal(first, x, conv_in)
    new: list[Tensor] = []
    for i, (partial, previous) in enumerate(carried):
        _, convtr, residual = blocks[3 * i : 3 * i + 3]  # ELU, upsampling, residual block
        x, partial = overlapping(convtr, F.elu(x), partial)
        x, previous = _residual(residual, x, previous)
        new += [partial, previous]
    x, conv_out = causal(last, F.elu(x), conv_out)
    return x, conv_in, new, conv_out


def _residual(block: SEANetResnetBlock, x: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Run a residual block, whose second convolution is one sample wide and keeps nothing."""
    _, wide, _, narrow = block.block
    y, previous = causal(wide, F.elu(x), previous)
    return x + narrow.conv(F.elu(y)), previous
