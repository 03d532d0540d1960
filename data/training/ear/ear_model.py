"""The small ear while it learns: whisper's modules over the few tokens that occur, and heads that only training uses.

Exact times of phonemes and words are known, so the encoder is told frame by frame what it hears, and the decoder's last
cross-attention where to look; both are learnt in a fraction of the steps that transcripts alone would take. Whisper's
own file has a row of the embedding for each of its 51 864 tokens: `checkpoint` puts those that were trained in their
places and makes all others impossible.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.models.architecture import full_config
from training.ear.batch import IGNORED, MELS, EarBatch
from training.ear.tokens import trained_tokens
from training.model_card import as_float16
from training.sentences import VOCABULARY

POSITIONS, TEXT_POSITIONS, TOKENS = 1500, 64, 51_864
TERMS = {"text": 1.0, "phoneme": 0.3, "word": 0.5, "attention": 0.2}
NEVER = -100.0  # logit of a token that was not trained


class Ear(nn.Module):
    """A whisper model with a short vocabulary, and two heads on its encoder.

    Attributes
    ----------
    whisper : whisper.model.Whisper
        Channel 0 before the logits is always 1 and no trained token uses it: see `checkpoint`.
    phonemes, words : torch.nn.Linear
        Read phonemes off the first block but one, and words off the encoder's output, at each position.
    """

    def __init__(self, seed: int, width: int, heads: int, layers: tuple[int, int]):
        from whisper.model import ModelDimensions, Whisper

        super().__init__()
        vocabulary = len(trained_tokens().ids)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.whisper = Whisper(
                ModelDimensions(
                    MELS, POSITIONS, width, heads, layers[0], vocabulary, TEXT_POSITIONS, width, heads, layers[1]
                )
            )
            self.phonemes = nn.Linear(width, 1 + max(full_config()["vocab"].values()))
            self.words = nn.Linear(width, 1 + len(VOCABULARY))
            nn.init.normal_(self.whisper.decoder.token_embedding.weight, std=0.05)
            nn.init.normal_(self.whisper.decoder.positional_embedding, std=0.02)
        self._keep_channel_free()

    @torch.no_grad()
    def _keep_channel_free(self) -> None:
        decoder = self.whisper.decoder
        decoder.token_embedding.weight[:, 0] = 0
        decoder.ln.weight[0], decoder.ln.bias[0] = 0, 1
        for parameter in (decoder.token_embedding.weight, decoder.ln.weight, decoder.ln.bias):
            parameter.register_hook(_without_first)

    def encode(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encoder's output and what its last block but one gives, both of shape (batch, positions, width).

        As whisper's own, for windows of any length up to its 30 s: the first positions are those of the whole window.
        """
        encoder = self.whisper.encoder
        x = F.gelu(encoder.conv2(F.gelu(encoder.conv1(mel)))).transpose(1, 2)
        x = x + encoder.positional_embedding[: x.shape[1]]
        inner = x
        for at, block in enumerate(encoder.blocks):
            inner = x if at == len(encoder.blocks) - 1 else inner
            x = _block(block, x)
        return encoder.ln_post(x), inner

    def decode(self, given: Tensor, heard: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits, shape (batch, tokens, vocabulary), and where the last block looks.

        Returns
        -------
        logits : torch.Tensor
        seen : torch.Tensor, shape (batch, tokens, positions)
            Attention of the last block's cross-attention, mean over its heads.
        """
        decoder = self.whisper.decoder
        x = decoder.token_embedding(given) + decoder.positional_embedding[: given.shape[1]]
        for block in decoder.blocks[:-1]:
            x = _block(block, x, heard)
        last = decoder.blocks[-1]
        x = x + _attend(last.attn, last.attn_ln(x), causal=True)
        cross, y = last.cross_attn, last.cross_attn_ln(x)
        q, k, v = _heads(cross, y, heard)
        seen = torch.softmax((q @ k.transpose(2, 3)).float() * q.shape[-1] ** -0.5, dim=-1)
        x = x + cross.out((seen.to(v.dtype) @ v).transpose(1, 2).flatten(2))
        x = x + last.mlp(last.mlp_ln(x))
        return decoder.ln(x) @ decoder.token_embedding.weight.T, seen.mean(1)

    def losses(self, batch: EarBatch, bfloat16: bool) -> dict[str, Tensor]:
        """Return every term of one step's loss."""
        with torch.autocast(batch.mel.device.type, torch.bfloat16, enabled=bfloat16):
            heard, inner = self.encode(batch.mel)
            logits, seen = self.decode(batch.given, heard)
            phonemes, words = self.phonemes(inner), self.words(heard)
        said = F.cross_entropy(
            logits.float().flatten(0, 1), batch.wanted.flatten(), ignore_index=IGNORED, reduction="none"
        )
        counted = batch.weights.flatten() * (batch.wanted.flatten() != IGNORED)
        return {
            "text": (said * counted).sum() / counted.sum(),
            "phoneme": F.cross_entropy(phonemes.float().flatten(0, 1), batch.phonemes.flatten(), ignore_index=IGNORED),
            "word": F.cross_entropy(words.float().flatten(0, 1), batch.words.flatten(), ignore_index=IGNORED),
            "attention": _astray(seen, batch.places),
        }

    @torch.no_grad()
    def listen(self, mel: Tensor, longest: int = 16) -> list[str]:
        """Return what is heard in each window, by greedy choice with timestamps; for a look while training."""
        tokens, heard = trained_tokens(), self.encode(mel)[0]
        said = torch.tensor([[tokens.start, tokens.times[0]]] * len(mel), device=mel.device)
        for _ in range(longest):
            said = torch.cat([said, self.decode(said, heard)[0][:, -1:].argmax(-1)], dim=1)
        times = {tokens.end, *tokens.times}
        rows = [row[2:] for row in said.tolist()]
        ends = [next((at for at, token in enumerate(row) if token in times), len(row)) for row in rows]
        return [tokens.text(row[:end]) for row, end in zip(rows, ends, strict=True)]


def _heads(attention: Any, x: Tensor, heard: Tensor) -> list[Tensor]:
    """Return queries, keys and values, each of shape (batch, heads, positions, width / heads)."""
    parts = attention.query(x), attention.key(heard), attention.value(heard)
    return [part.unflatten(2, (attention.n_head, -1)).transpose(1, 2) for part in parts]


def _attend(attention: Any, x: Tensor, heard: Tensor | None = None, causal: bool = False) -> Tensor:
    """As whisper's attention, but in float32: the fused backward pass takes five times as long in bfloat16 on a CPU."""
    q, k, v = (part.float() for part in _heads(attention, x, x if heard is None else heard))
    with torch.autocast(x.device.type, enabled=False):
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return attention.out(mixed.transpose(1, 2).flatten(2))


def _block(block: Any, x: Tensor, heard: Tensor | None = None) -> Tensor:
    """As whisper's block: an encoder's, or with `heard` a decoder's."""
    x = x + _attend(block.attn, block.attn_ln(x), causal=heard is not None)
    if heard is not None:
        x = x + _attend(block.cross_attn, block.cross_attn_ln(x), heard)
    return x + block.mlp(block.mlp_ln(x))


def _astray(seen: Tensor, places: Tensor) -> Tensor:
    """Return the mean negative log of the attention that falls on the word to be said."""
    at = torch.arange(seen.shape[2], device=seen.device)
    inside = (at >= places[..., :1]) & (at < places[..., 1:])
    marked = inside.any(-1)
    share = (seen * inside).sum(-1)[marked]
    return -torch.log(share + 1e-4).mean() if marked.any() else seen.sum() * 0


def _without_first(gradient: Tensor) -> Tensor:
    gradient = gradient.clone()
    gradient[..., 0] = 0
    return gradient


def checkpoint(state: dict[str, Tensor], width: int, heads: int, layers: tuple[int, int]) -> dict[str, Any]:
    """Return a trained ear in openai-whisper's format, in float16.

    Channel 0 before the logits is 1 for every input, by the last norm's weight 0 and bias 1. A token that was not
    trained has `NEVER` there and 0 elsewhere: its logit is -100 whatever is heard. Trained tokens have 0 there.

    Parameters
    ----------
    state : dict
        Of an `Ear`; what does not belong to whisper is left out.
    width, heads, layers
        As `Ear` was built.

    Raises
    ------
    InputError
        If a weight cannot be held in float16.
    """
    inner = {name.removeprefix("whisper."): t.cpu() for name, t in state.items() if name.startswith("whisper.")}
    ids = list(trained_tokens().ids)
    table = torch.zeros(TOKENS, width)
    table[:, 0] = NEVER
    table[ids] = inner["decoder.token_embedding.weight"]
    inner["decoder.token_embedding.weight"] = table
    dims = {
        "n_mels": MELS,
        "n_audio_ctx": POSITIONS,
        "n_audio_state": width,
        "n_audio_head": heads,
        "n_audio_layer": layers[0],
        "n_vocab": TOKENS,
        "n_text_ctx": TEXT_POSITIONS,
        "n_text_state": width,
        "n_text_head": heads,
        "n_text_layer": layers[1],
    }
    return {"dims": dims, "model_state_dict": {name: as_float16(name, t) for name, t in inner.items()}}
