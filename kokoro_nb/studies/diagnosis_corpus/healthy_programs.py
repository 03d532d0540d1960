"""Programs whose exports are healthy: each function makes a module with random weights, and inputs for it by name.

They are given to `kokoro-nb diagnose` as ``kokoro_nb.studies.diagnosis_corpus.healthy_programs:whisper_encoder``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.studies.diagnosis_corpus import speech_networks as networks

Program = tuple[Any, Mapping[str, Any]]


class First(nn.Module):
    """A module whose answer is one attribute of what another one returns."""

    def __init__(self, inner: nn.Module, attribute: str) -> None:
        super().__init__()
        self.inner, self.attribute = inner, attribute

    def forward(self, x: Tensor) -> Tensor:
        """Return the attribute."""
        return getattr(self.inner(x), self.attribute)


def seeded(seed: int, make: Callable[[], nn.Module], inputs: Callable[[], Mapping[str, Tensor]]) -> Program:
    """Make a module and its inputs with PyTorch's random numbers set to `seed`, and leave those as they were."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return make().eval().requires_grad_(False), inputs()


def whisper_encoder(seed: int = 0) -> Program:
    """Whisper's encoder, two layers of 64."""
    from whisper.model import AudioEncoder

    def make() -> nn.Module:
        return AudioEncoder(n_mels=40, n_ctx=50, n_state=64, n_head=4, n_layer=2)

    return seeded(seed, make, lambda: {"x": torch.randn(1, 40, 100)})


def wav2vec2(seed: int = 0) -> Program:
    """The wav2vec 2.0 of transformers, three convolutions and two layers of 32."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 4, 4),
        conv_kernel=(10, 8, 4),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    config._attn_implementation = "eager"
    return seeded(seed, lambda: First(Wav2Vec2Model(config), "last_hidden_state"), lambda: {"x": torch.randn(1, 4000)})


def hifigan(seed: int = 0) -> Program:
    """The HiFi-GAN of transformers, two transposed convolutions from 32 channels, louder than its own start."""
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    config = SpeechT5HifiGanConfig(
        model_in_dim=20,
        upsample_initial_channel=32,
        upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3, 5],
        resblock_dilation_sizes=[[1, 3], [1, 3]],
        initializer_range=0.1,
        normalize_before=False,
    )
    return seeded(seed, lambda: SpeechT5HifiGan(config), lambda: {"spectrogram": torch.randn(1, 24, 20)})


def speaker_encoder(seed: int = 0) -> Program:
    """A speaker encoder of three LSTMs."""
    return seeded(seed, networks.SpeakerEncoder, lambda: {"mel": torch.randn(1, 30, 40)})


def bidirectional_encoder(seed: int = 0) -> Program:
    """A text encoder with an LSTM in both directions."""
    return seeded(seed, networks.BidirectionalEncoder, lambda: {"ids": torch.randint(0, 50, (1, 12))})


def vocos_like(seed: int = 0) -> Program:
    """A vocoder of ConvNeXt blocks with an inverse STFT."""
    return seeded(seed, networks.VocosLike, lambda: {"mel": torch.randn(1, 20, 24)})


def bigvgan_like(seed: int = 0) -> Program:
    """A vocoder with anti-aliased periodic activations."""
    return seeded(seed, networks.BigVganLike, lambda: {"mel": torch.randn(1, 20, 24)})


def deepfilter_like(seed: int = 0) -> Program:
    """A noise suppressor with a GRU and a complex filter."""
    return seeded(seed, networks.DeepFilterLike, lambda: {"spectrum": torch.randn(1, 2, 20, 16)})


def attention(seed: int = 0) -> Program:
    """Attention whose queries, keys and values come from one unbind."""
    return seeded(seed, networks.Attention, lambda: {"x": torch.randn(1, 40, 64)})


def conformer_convolution(seed: int = 0) -> Program:
    """The convolution module of a Conformer."""
    return seeded(seed, networks.ConformerConvolution, lambda: {"x": torch.randn(1, 60, 32)})


def wide_convolutions(seed: int = 0) -> Program:
    """Convolutions over 1024, 2048 and 4096 channels, the sums that TVM takes in order."""

    def make() -> nn.Module:
        narrow = nn.Conv1d(1024, 32, 3, padding=1), nn.Conv1d(32, 2048, 1), nn.LeakyReLU(0.1)
        return nn.Sequential(*narrow, nn.Conv1d(2048, 16, 3), nn.Conv1d(16, 4096, 1), nn.Tanh(), nn.Conv1d(4096, 8, 1))

    return seeded(seed, make, lambda: {"input": torch.randn(1, 1024, 24)})


def wide_products(seed: int = 0) -> Program:
    """A layer norm over 4096 and products of 4096 terms."""

    def make() -> nn.Module:
        return nn.Sequential(nn.LayerNorm(4096), nn.Linear(4096, 64), nn.GELU(), nn.Linear(64, 4096))

    return seeded(seed, make, lambda: {"input": torch.randn(1, 16, 4096)})


def long_group_norm(seed: int = 0) -> Program:
    """Group norms over 7200 and over 96,000 numbers."""

    def make() -> nn.Module:
        return nn.Sequential(nn.GroupNorm(2, 12), nn.Conv1d(12, 4, 5, stride=2), nn.GroupNorm(1, 4))

    return seeded(seed, make, lambda: {"input": torch.randn(1, 12, 48000) + 0.5})


def harmonic_source(seed: int = 0) -> Program:
    """Nine harmonics of 120 to 300 Hz for a second, their phase a running sum."""

    def inputs() -> dict[str, Tensor]:
        return {"f0": (120 + 180 * torch.rand(1, 1)) * torch.linspace(1.0, 1.4, 24000)[None]}

    return seeded(seed, networks.HarmonicSource, inputs)


def log_mel(seed: int = 0) -> Program:
    """A log-mel spectrogram of two seconds."""
    return seeded(seed, networks.LogMel, lambda: {"signal": 0.1 * torch.randn(1, 32000)})


def adaptive_block(seed: int = 0) -> Program:
    """Instance norm with a style, on two seconds of frames."""
    return seeded(seed, networks.AdaptiveBlock, lambda: {"x": torch.randn(1, 32, 160), "style": torch.randn(1, 16)})


def hifigan_like(seed: int = 0) -> Program:
    """A plain HiFi-GAN."""
    return seeded(seed, networks.HifiGanLike, lambda: {"mel": torch.randn(1, 20, 24)})


def kokoro_narrow(seed: int = 0) -> Program:
    """Kokoro's decoder from `har`, narrow and with random weights, patched for export."""
    return _kokoro("narrow", seed)


def kokoro_mini(seed: int = 0) -> Program:
    """Kokoro's decoder from `har` with the bundled trained voice, patched for export."""
    return _kokoro("mini", seed)


def pocket_flow_step(seed: int = 0) -> Program:
    """A step of PocketTTS' sampler."""
    return _pocket("flow", seed)


def pocket_language_step(seed: int = 0) -> Program:
    """A step of PocketTTS' language model, after three that filled its cache."""
    return _pocket("language", seed)


def pocket_conditioning_step(seed: int = 0) -> Program:
    """A step that reads PocketTTS' conditioning, after three that filled its cache."""
    return _pocket("conditioning step", seed)


def pocket_mimi_step(seed: int = 0) -> Program:
    """A step of PocketTTS' codec, after three that filled its state."""
    return _pocket("mimi", seed)


def _kokoro(weights: str, seed: int, frames: int = 4) -> Program:
    from kokoro_nb.studies.decoder import spoken_decoder

    _, decoder = spoken_decoder(weights, seed, frames=frames)
    return decoder.program, decoder.inputs


def _pocket(name: str, seed: int) -> Program:
    from kokoro_nb.models.pocket.pocket_architecture import load_pocket
    from kokoro_nb.models.pocket.pocket_steps import host_of, step_modules

    model = load_pocket(seed=seed)
    step = step_modules(model, host_of(model, capacity=16, frames=4, room=4))[name]
    draw = torch.Generator().manual_seed(seed)
    given = dict(step.inputs)
    outputs: tuple[str, ...] = getattr(step.module, "output_names", ())
    with torch.no_grad():
        for _ in range(3):
            given |= {
                one: torch.randn(value.shape, generator=draw)
                for one, value in given.items()
                if value.is_floating_point() and one not in outputs
            }
            made = step.module(**given)
            values = made if isinstance(made, tuple) else (made,)
            state = dict(zip(outputs, values, strict=True))
            given |= {one: value for one, value in state.items() if one in given}
    return step.module, given
