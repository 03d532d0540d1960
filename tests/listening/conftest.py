"""Tiny whisper checkpoints in the official format, and a voice."""

import numpy as np
import pytest
import torch
from whisper.model import ModelDimensions, Whisper

DIMS = {
    "n_mels": 80,
    "n_audio_ctx": 1500,
    "n_audio_state": 16,
    "n_audio_head": 2,
    "n_audio_layer": 1,
    "n_vocab": 51864,
    "n_text_ctx": 64,
    "n_text_state": 16,
    "n_text_head": 2,
    "n_text_layer": 1,
}


def whisper_checkpoint(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Whisper(ModelDimensions(**DIMS))
        torch.nn.init.normal_(model.decoder.positional_embedding, std=0.02)
    return {"dims": dict(DIMS), "model_state_dict": model.state_dict()}


def whisper_parrot(tokens):
    """A checkpoint that says `tokens`, one per position, whatever it hears: only positions reach its logits."""
    content = whisper_checkpoint()
    state = content["model_state_dict"]
    for name, tensor in state.items():
        if name.startswith("decoder.blocks") and name.endswith(
            ("out.weight", "out.bias", "mlp.2.weight", "mlp.2.bias")
        ):
            tensor.zero_()
    kinds = list(dict.fromkeys(tokens))
    # rows without a mean, so that the last LayerNorm keeps their direction
    basis = torch.linalg.qr(torch.cat([torch.ones(16, 1), torch.eye(16)[:, 1:]], 1))[0].T[1:]
    assert len(kinds) <= len(basis)
    embedding, position = state["decoder.token_embedding.weight"], state["decoder.positional_embedding"]
    embedding.mul_(1e-3)
    for place, token in enumerate(tokens):
        position[place] = 100 * basis[kinds.index(token)]
        embedding[token] = 10 * basis[kinds.index(token)]
    return content


@pytest.fixture
def voice():
    """One second at 24 kHz: 0.75 s of a vowel-like sound gliding about 150 Hz, then weak noise."""
    time = np.arange(18_000) / 24_000
    phase = 2 * np.pi * np.cumsum(150 + 30 * np.sin(2 * np.pi * time)) / 24_000
    vowel = sum(np.sin(k * phase) / k for k in range(1, 20)) * 0.2
    return np.concatenate([vowel, np.random.default_rng(0).normal(0, 0.003, 6000)])
