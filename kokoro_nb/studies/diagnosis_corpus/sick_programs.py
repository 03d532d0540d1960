"""Programs that a released runtime or converter gets wrong: each function makes a module and inputs that show it.

The weights are random; the defect is that of the version that is installed, or of the runtime that is named.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.studies.diagnosis_corpus import speech_networks as networks
from kokoro_nb.studies.diagnosis_corpus.healthy_programs import Program, seeded


class SpectralPhase(nn.Module):
    """The phase of an STFT by convolution, read by a convolution, as Kokoro's generator reads it."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, size: int = 20, hop: int = 5) -> None:
        super().__init__()
        self.hop = hop
        bins, window = size // 2 + 1, torch.hann_window(size)
        angle = 2 * torch.pi * torch.arange(bins)[:, None] * torch.arange(size)[None] / size
        self.register_buffer("cosine", torch.cos(angle)[:, None] * window)
        self.register_buffer("sine", -torch.sin(angle)[:, None] * window)
        self.after = nn.Conv1d(bins, 4, 3, padding=1)

    def forward(self, signal: Tensor) -> Tensor:
        """Return (1, 4, frames) of (1, samples)."""
        real = F.conv1d(signal[:, None], self.cosine, stride=self.hop)
        imaginary = F.conv1d(signal[:, None], self.sine, stride=self.hop)
        return self.after(torch.atan2(imaginary, real))


class PitchFeatures(nn.Module):
    """Sine features of a pitch, in units of four times the sampling rate: (1, 1, frames) Hz -> (1, 8, frames)."""

    rate: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rate", torch.full((1, 1, 1), 4.0 * networks.RATE))
        self.conv = nn.Conv1d(1, 8, 3, padding=1)

    def forward(self, f0: Tensor) -> Tensor:
        """Return the features."""
        return torch.sin(self.conv(400 * (f0 / self.rate)))


class SnakeBlock(nn.Module):
    """The activation x + sin²(alpha x) / alpha as Kokoro writes it, alpha from a style, and a convolution."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.style = nn.Linear(4, channels)
        self.conv = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Return (1, channels, frames) of (1, channels, frames) and (1, 4)."""
        alpha = 0.002 + 0.008 * torch.sigmoid(self.style(style))[..., None]
        return self.conv(x + (1 / alpha) * torch.sin(alpha * x) ** 2)


class NoisyDecoder(nn.Module):
    """Convolutions that add noise to what they read, drawn inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(4, 8, 3, padding=1), nn.Conv1d(8, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return (1, 1, frames) of (1, 4, frames)."""
        y = self.first(x)
        return self.last(y + torch.randn(1, 8, 64))


class FrameTable(nn.Module):
    """Which row of a table belongs to a time, at ten rows to the second: (1, times) s -> (1, times, 8)."""

    step: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.tensor(0.1))
        self.table = nn.Embedding(64, 8)

    def forward(self, seconds: Tensor) -> Tensor:
        """Return the rows."""
        return self.table(torch.div(seconds, self.step, rounding_mode="floor").long())


class StopHead(nn.Module):
    """The log-probability that speech goes on, from logits of any size: (1, frames, 8) -> (1, frames)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the running sum of the log-probabilities."""
        return F.logsigmoid(self.linear(x)[..., 0]).cumsum(1)


class EnergyNorm(nn.Module):
    """Each frame divided by the root of its energy, and two convolutions: (1, 8, frames) -> (1, 8, frames)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(8, 8, 1, bias=False), nn.Conv1d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the frames, each of energy 1."""
        y = self.first(x)
        return self.last(y * torch.rsqrt((y * y).mean(1, keepdim=True)))


class PooledLstm(nn.Module):
    """The mean of an LSTM's states, as their sum over their number: (1, frames, 16) -> (1, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.linear = nn.LSTM(16, 24, batch_first=True), nn.Linear(24, 8)

    def forward(self, mel: Tensor) -> Tensor:
        """Return the embedding of an utterance."""
        states = self.lstm(mel)[0]
        return self.linear(states.sum(1) / float(states.shape[1]))


class GeluLayers(nn.Module):
    """Two products with the tanh form of gelu between them, as in PocketTTS and Whisper ports."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return (1, frames, width) of (1, frames, width)."""
        return self.last(F.gelu(self.first(x), approximate="tanh"))


def nearly_constant_decoder(seed: int = 0) -> Program:
    """Kokoro's narrow decoder from `har` with channels that hardly vary, without the patch for them."""
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.studies.decoder import TEXT
    from kokoro_nb.studies.tvm_nan.constant_channels import constant_channels

    kokoro = load_model("narrow", seed)
    found = constant_channels(kokoro.model, capture(kokoro, TEXT, seed=seed), frames=4, channels=6)
    return found.without, found.inputs


def offset_channels(seed: int = 0) -> Program:
    """Instance norm over channels of mean 10 and deviation 0.01: what apache/tvm#19592 says of a layer norm."""

    def inputs() -> dict[str, Tensor]:
        x = torch.randn(1, 32, 960)
        x[:, :6] = 10 + 0.01 * x[:, :6]
        return {"x": x, "style": torch.randn(1, 16)}

    return seeded(seed, networks.AdaptiveBlock, inputs)


def repeated_norm(seed: int = 0) -> Program:
    """Instance norm, called again and again by one loaded program: as in pytorch/executorch#17503."""
    return seeded(seed, networks.AdaptiveBlock, lambda: {"x": 1 + torch.randn(1, 32, 40), "style": torch.randn(1, 16)})


def remainder_source(seed: int = 0) -> Program:
    """A harmonic source whose phase is wrapped by x % 1: as in apple/coremltools#2836."""

    def inputs() -> dict[str, Tensor]:
        return {"f0": (120 + 80 * torch.rand(1, 1)).expand(1, 2400).clone()}

    return seeded(seed, lambda: networks.HarmonicSource("remainder"), inputs)


def running_phase(seed: int = 0) -> Program:
    """A harmonic source whose phase grows for half a second: as in hexgrad/kokoro#353."""

    def inputs() -> dict[str, Tensor]:
        return {"f0": (180 + 40 * torch.rand(1, 1)).expand(1, 12000).clone()}

    return seeded(seed, lambda: networks.HarmonicSource("none"), inputs)


def phase_of_an_offset(seed: int = 0) -> Program:
    """The phase of a signal below zero, whose first bin lies on the branch cut: as in FluidInference/mobius#50."""
    return seeded(seed, SpectralPhase, lambda: {"signal": -1 - torch.rand(1, 200)})


def phase_of_silence(seed: int = 0) -> Program:
    """The phase of a signal with a pause of zeros: as in pytorch/pytorch#162570."""

    def inputs() -> dict[str, Tensor]:
        signal = torch.randn(1, 200)
        signal[:, 60:140] = 0
        return {"signal": signal}

    return seeded(seed, SpectralPhase, inputs)


def phase_of_a_whisper(seed: int = 0) -> Program:
    """The phase of a signal of 1e-9, below what coremltools adds to it."""
    return seeded(seed, SpectralPhase, lambda: {"signal": 1e-9 * torch.randn(1, 200)})


def loud_norm(seed: int = 0) -> Program:
    """Instance norm of values whose squares sum to more than float16 holds: as in ml-explore/mlx#4228."""

    def inputs() -> dict[str, Tensor]:
        return {"x": 200 * torch.randn(1, 8, 64), "style": torch.randn(1, 4)}

    return seeded(seed, lambda: networks.AdaptiveBlock(8, 4), inputs)


def snake(seed: int = 0) -> Program:
    """Snake with a small alpha, whose reciprocal coremltools takes of alpha + 0.0001."""
    return seeded(seed, SnakeBlock, lambda: {"x": torch.randn(1, 8, 64), "style": torch.randn(1, 4)})


def quiet_frames(seed: int = 0) -> Program:
    """Frames of an energy of 1e-12 divided by its root, to which coremltools adds 1e-12."""
    return seeded(seed, EnergyNorm, lambda: {"x": 1e-6 * torch.randn(1, 8, 48)})


def drawn_noise(seed: int = 0) -> Program:
    """A decoder that draws its noise inside, which TVM draws once, at import."""
    return seeded(seed, NoisyDecoder, lambda: {"x": torch.randn(1, 4, 64)})


def frame_table(seed: int = 0) -> Program:
    """Rows found by times that are whole multiples of the step."""
    return seeded(seed, FrameTable, lambda: {"seconds": torch.arange(1.0, 25.0)[None] / 4})


def stop_head(seed: int = 0) -> Program:
    """Log-probabilities of logits near -150."""

    def make() -> nn.Module:
        module = StopHead()
        module.linear.bias.data -= 150
        return module

    return seeded(seed, make, lambda: {"x": 10 * torch.randn(1, 20, 8)})


def tanh_gelu(seed: int = 0) -> Program:
    """A feed-forward part with the tanh form of gelu: as in pytorch/executorch#22851 and apple/coremltools#2863."""
    return seeded(seed, GeluLayers, lambda: {"x": 2 * torch.randn(1, 20, 24)})


def pitch_features(seed: int = 0) -> Program:
    """Features of a pitch in units of 96000 Hz, a constant beyond what float16 holds."""
    return seeded(seed, PitchFeatures, lambda: {"f0": 100 + 200 * torch.rand(1, 1, 40)})


def codec_with_a_pause(seed: int = 0) -> Program:
    """A vocoder on frames of which a third are a pause 60 dB below: as in GaijinEntertainment/daScript#4063."""

    def inputs() -> dict[str, Tensor]:
        mel = torch.randn(1, 20, 24)
        mel[..., 8:16] *= 1e-3
        return {"mel": mel}

    return seeded(seed, networks.HifiGanLike, inputs)


def pooled_lstm(seed: int = 0) -> Program:
    """An utterance of 48 frames; a trace takes the number of the LSTM's states from a shorter example."""
    return seeded(seed, PooledLstm, lambda: {"mel": torch.randn(1, 48, 16)})


def loud_codec(seed: int = 0) -> Program:
    """A vocoder on frames that are 20 times as loud as those that its ranges were taken from."""
    return seeded(seed, networks.HifiGanLike, lambda: {"mel": torch.randn(1, 20, 24)})
