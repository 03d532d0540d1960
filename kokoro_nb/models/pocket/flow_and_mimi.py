"""PocketTTS in steps: text or voice in, one latent frame of the language model at a time, and Mimi's decoder.

Every step takes its state and returns the new one. The order of an utterance: the embeddings of the voice, then those
of the text through `ConditioningStep` or `ConditioningBackbone`; then for each frame `FlowLmStep` and, from noise,
`FlowStep` as often as the sampler has steps, whose result goes into the next frame.
`MimiStep` makes 80 ms of audio of a frame, with all that it streams as inputs and outputs.
"""

import torch
import torch.nn.functional as F
from pocket_tts import TTSModel
from pocket_tts.modules.conv import StreamingConv1d, StreamingConvTranspose1d
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.transformer import STREAMS, run, streams
from kokoro_nb.models.stages import PipelineStep


class TextEmbedding(PipelineStep, output_names=("embeddings",), parts=("flow_lm.conditioner",)):
    """Token ids to embeddings."""

    def forward(self, ids: Tensor) -> Tensor:
        """Return the embeddings, (1, tokens, width), of `ids`, (1, tokens) int64."""
        return self.conditioner(ids)


class ConditioningBackbone(PipelineStep, output_names=("cache", "position"), parts=("flow_lm.transformer",)):
    """Read many embeddings at once, of the text or of a voice, into the cache.

    Room for tokens that are not used costs time but changes nothing: the position moves by `length` alone, so that no
    later token sees them, and the next ones take their places.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its transformer is shared, not copied.
    """

    def forward(self, embeddings: Tensor, length: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Read the first `length` of `embeddings`.

        Parameters
        ----------
        embeddings : torch.Tensor, shape (1, tokens, width)
            Embeddings, then anything finite.
        length : torch.Tensor, shape (1,), int64
            How many there are.
        cache, position
            See `transformer.flow_lm_state`.

        Returns
        -------
        cache, position
            The new ones.
        """
        _, cache = run(self.transformer, embeddings, cache, position, length)
        return cache, position + length


class ConditioningStep(ConditioningBackbone):
    """Read one embedding into the cache."""

    def forward(self, embedding: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Read `embedding`, (1, 1, width); state in and out as in `ConditioningBackbone.forward`."""
        _, cache = run(self.transformer, embedding, cache, position, 1)
        return cache, position + 1


class FlowLmStep(PipelineStep, output_names=("condition", "stop", "cache", "position")):
    """One frame of the language model: the latent before it to the condition of the next.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its parts are shared, not copied.
    """

    parts = ("flow_lm.input_linear", "flow_lm.transformer", "flow_lm.out_norm", "flow_lm.out_eos")

    def __init__(self, model: TTSModel):
        super().__init__(model)
        self.z_proj = nn.Identity() if model.flow_lm.z_proj is None else model.flow_lm.z_proj

    def forward(self, latent: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read one latent.

        Parameters
        ----------
        latent : torch.Tensor, shape (1, 1, latent width)
            The frame before, or ``model.flow_lm.bos_emb`` for the first, where the package writes NaN.
        cache, position
            See `transformer.flow_lm_state`.

        Returns
        -------
        condition : torch.Tensor, shape (1, condition width)
            Input of `FlowStep`.
        stop : torch.Tensor, shape (1, 1)
            Logit of the end of speech, to be compared with ``model.eos_threshold``.
        cache, position
            The new ones.
        """
        x, cache = run(self.transformer, self.input_linear(latent), cache, position, 1)
        condition = self.z_proj(self.out_norm(x))[:, 0]  # TVM reads -1 before the tensor
        return condition, self.out_eos(condition), cache, position + 1


class FlowStep(PipelineStep, output_names=("direction",), parts=("flow_lm.flow_net",)):
    """One step of the sampler, from time `s` to time `t`.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its flow network is shared, not copied.

    Raises
    ------
    InputError
        If the network of the model does not take two times.
    """

    def __init__(self, model: TTSModel):
        super().__init__(model)
        if self.flow_net.num_time_conds != 2:
            raise InputError(
                f"The flow network of type '{model.flow_lm.flow_type}' takes {self.flow_net.num_time_conds} times, "
                "the step is for two; use a configuration of type 'lsd', such as 'english'."
            )

    def forward(self, c: Tensor, s: Tensor, t: Tensor, x: Tensor) -> Tensor:
        """Return where to go from `x`: the next point is ``x + direction / steps``.

        Parameters
        ----------
        c : torch.Tensor, shape (1, condition width)
            Condition of the frame.
        s, t : torch.Tensor, shape (1, 1)
            Begin and end of the step, ``i / steps`` and ``(i + 1) / steps``.
        x : torch.Tensor, shape (1, latent width)
            The point at `s`; noise at 0, the latent at 1.

        Returns
        -------
        torch.Tensor, shape (1, latent width)
        """
        return self.flow_net(c, s, t, x)


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


class MimiStep(PipelineStep, output_names=("audio", "position", "cache", *STREAMS)):
    """One latent frame to audio.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its parts are shared, not copied.

    Raises
    ------
    InputError
        If the decoder is of another build: see `transformer.streams`.
    """

    parts = ("mimi.quantizer", "mimi.upsample", "mimi.decoder_transformer", "mimi.decoder")
    mean: Tensor
    scale: Tensor

    def __init__(self, model: TTSModel):
        streams(model)  # refuses what it does not know
        super().__init__(model)
        self.register_buffer("mean", model.flow_lm.emb_mean.clone())
        self.register_buffer("scale", model.flow_lm.emb_std.clone())

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
            See `transformer.mimi_state`.

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
        projected, x = self.decoder_transformer, x.transpose(1, 2)
        if projected.input_proj is not None:
            x = projected.input_proj(x)
        x, cache = run(projected.transformer, x, cache, position, steps)
        first, *blocks, _, last = self.decoder.model
        x, conv_in = causal(first, projected.output_projs[0](x).transpose(1, 2), conv_in)
        carried: list[Tensor] = []
        for i, (partial, previous) in enumerate(((up_0, res_0), (up_1, res_1), (up_2, res_2))):
            _, convtr, residual = blocks[3 * i : 3 * i + 3]  # ELU, upsampling, residual block
            x, partial = overlapping(convtr, F.elu(x), partial)
            _, wide, _, narrow = residual.block  # whose second convolution is one sample wide and keeps nothing
            y, previous = causal(wide, F.elu(x), previous)
            x = x + narrow.conv(F.elu(y))
            carried += [partial, previous]
        audio, conv_out = causal(last, F.elu(x), conv_out)
        return audio, position + steps, cache, upsample, conv_in, *carried, conv_out
