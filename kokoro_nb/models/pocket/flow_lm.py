"""The language model of PocketTTS in steps: text or voice in, one latent frame out at a time.

Every step takes its state and returns the new one. The order of an utterance: the embeddings of the voice, then those
of the text through `ConditioningStep` or `ConditioningBackbone`; then for each frame `FlowLmStep` and, from noise,
`FlowStep` as often as the sampler has steps, whose result goes into the next frame.
"""

from pocket_tts import TTSModel
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.transformer import Write, run


class TextEmbedding(nn.Module):
    """Token ids to embeddings."""

    output_names = ("embeddings",)

    def __init__(self, model: TTSModel):
        super().__init__()
        self.conditioner = model.flow_lm.conditioner

    def forward(self, ids: Tensor) -> Tensor:
        """Return the embeddings, (1, tokens, width), of `ids`, (1, tokens) int64."""
        return self.conditioner(ids)


class ConditioningBackbone(nn.Module):
    """Read many embeddings at once, of the text or of a voice, into the cache.

    Room for tokens that are not used costs time but changes nothing: the position moves by `length` alone, so that no
    later token sees them, and the next ones take their places.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its transformer is shared, not copied.
    write : {"one_hot", "scatter"}
        See `transformer.written`.
    """

    output_names = ("cache", "position")

    def __init__(self, model: TTSModel, write: Write = "one_hot"):
        super().__init__()
        self.transformer = model.flow_lm.transformer
        self.write = write

    def forward(self, embeddings: Tensor, length: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Read the first `length` of `embeddings`.

        Parameters
        ----------
        embeddings : torch.Tensor, shape (1, tokens, width)
            Embeddings, then anything finite.
        length : torch.Tensor, shape (1,), int64
            How many there are.
        cache, position
            See `stream_state.flow_lm_state`.

        Returns
        -------
        cache, position
            The new ones.
        """
        _, cache = run(self.transformer, embeddings, cache, position, length, self.write)
        return cache, position + length


class ConditioningStep(ConditioningBackbone):
    """Read one embedding into the cache."""

    def forward(self, embedding: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Read `embedding`, (1, 1, width); state in and out as in `ConditioningBackbone.forward`."""
        _, cache = run(self.transformer, embedding, cache, position, 1, self.write)
        return cache, position + 1


class FlowLmStep(nn.Module):
    """One frame of the language model: the latent before it to the condition of the next.

    Parameters
    ----------
    model, write
        See `ConditioningBackbone`.
    """

    output_names = ("condition", "stop", "cache", "position")

    def __init__(self, model: TTSModel, write: Write = "one_hot"):
        super().__init__()
        language = model.flow_lm
        self.input_linear, self.transformer, self.out_norm = (
            language.input_linear,
            language.transformer,
            language.out_norm,
        )
        self.z_proj = nn.Identity() if language.z_proj is None else language.z_proj
        self.out_eos = language.out_eos
        self.write = write

    def forward(self, latent: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read one latent.

        Parameters
        ----------
        latent : torch.Tensor, shape (1, 1, latent width)
            The frame before, or ``model.flow_lm.bos_emb`` for the first, where the package writes NaN.
        cache, position
            See `stream_state.flow_lm_state`.

        Returns
        -------
        condition : torch.Tensor, shape (1, condition width)
            Input of `FlowStep`.
        stop : torch.Tensor, shape (1, 1)
            Logit of the end of speech, to be compared with ``model.eos_threshold``.
        cache, position
            The new ones.
        """
        x, cache = run(self.transformer, self.input_linear(latent), cache, position, 1, self.write)
        condition = self.z_proj(self.out_norm(x))[:, 0]  # TVM reads -1 before the tensor
        return condition, self.out_eos(condition), cache, position + 1


class FlowStep(nn.Module):
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

    output_names = ("direction",)

    def __init__(self, model: TTSModel):
        super().__init__()
        self.flow_net = model.flow_lm.flow_net
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
