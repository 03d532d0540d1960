"""Networks of the kinds that speech models are made of, small and with random weights: what healthy exports are of."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HARMONICS, RATE = 9, 24000  # of a harmonic source; Hz


class SpeakerEncoder(nn.Module):
    """Three LSTMs, a projection and a norm of 1, as in GE2E (Wan et al. 2018): (1, frames, 40) -> (1, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 32, num_layers=3, batch_first=True)
        self.linear = nn.Linear(32, 32)

    def forward(self, mel: Tensor) -> Tensor:
        """Return the embedding of an utterance."""
        _, (hidden, _) = self.lstm(mel)
        embedded = torch.relu(self.linear(hidden[-1]))
        return embedded / (embedded.norm(dim=1, keepdim=True) + 1e-6)


class BidirectionalEncoder(nn.Module):
    """Embedding, convolution, layer norm and an LSTM in both directions: (1, tokens) -> (1, tokens, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.conv = nn.Conv1d(32, 32, 5, padding=2)
        self.norm = nn.LayerNorm(32)
        self.lstm = nn.LSTM(32, 16, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the features of the tokens."""
        x = self.conv(self.embedding(ids).transpose(1, 2)).transpose(1, 2)
        return self.lstm(F.leaky_relu(self.norm(x), 0.2))[0]


class ConvNextBlock(nn.Module):
    """Depthwise convolution, layer norm and two products with a gelu between them, scaled and added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.widen, self.narrow = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Return (1, width, frames) of (1, width, frames)."""
        y = self.norm(self.depthwise(x).transpose(1, 2))
        return x + (self.scale * self.narrow(F.gelu(self.widen(y)))).transpose(1, 2)


class InverseStft(nn.Module):
    """The inverse STFT as two transposed convolutions: (1, bins, frames) twice -> (1, samples).

    Parameters
    ----------
    size, hop : int
        Of the transform, samples.
    weighted : bool
        Divide each sample by the sum of the squared windows that cover it.
    """

    cosine: Tensor
    sine: Tensor
    squared: Tensor

    def __init__(self, size: int = 16, hop: int = 4, weighted: bool = True) -> None:
        super().__init__()
        self.size, self.hop, self.weighted = size, hop, weighted
        bins, window = size // 2 + 1, torch.hann_window(size)
        angle = 2 * torch.pi * torch.arange(bins)[:, None] * torch.arange(size)[None] / size
        share = torch.full((bins, 1), 2.0 / size)
        share[[0, -1]] = 1.0 / size
        self.register_buffer("cosine", (share * torch.cos(angle) * window)[:, None])
        self.register_buffer("sine", (share * torch.sin(angle) * window)[:, None])
        self.register_buffer("squared", (window**2)[None, None])

    def forward(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Return the signal, without the half transform at either end."""
        signal = F.conv_transpose1d(real, self.cosine, stride=self.hop)
        signal = signal - F.conv_transpose1d(imaginary, self.sine, stride=self.hop)
        pad = self.size // 2
        if self.weighted:
            ones = torch.ones(1, 1, real.shape[-1], dtype=real.dtype)
            weight = F.conv_transpose1d(ones, self.squared, stride=self.hop)
            signal = signal[..., pad:-pad] / weight[..., pad:-pad]
        else:
            signal = signal[..., pad:-pad]
        return signal[:, 0]


class VocosLike(nn.Module):
    """ConvNeXt blocks and a head of magnitude and phase with an inverse STFT, as in Vocos (Siuzdak 2023)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Conv1d(20, width, 7, padding=3)
        self.blocks = nn.ModuleList(ConvNextBlock(width) for _ in range(2))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, 18)
        self.inverse = InverseStft()

    def forward(self, mel: Tensor) -> Tensor:
        """Return the signal, (1, samples), of (1, 20, frames)."""
        x = self.embed(mel)
        for block in self.blocks:
            x = block(x)
        logarithm, phase = self.head(self.norm(x.transpose(1, 2))).transpose(1, 2).chunk(2, dim=1)
        magnitude = torch.exp(logarithm).clamp(max=1e2)
        return self.inverse(magnitude * torch.cos(phase), magnitude * torch.sin(phase))


class SnakeBeta(nn.Module):
    """The periodic activation x + sin²(alpha x) / beta between an up- and a downsampling, as in BigVGAN."""

    lowpass: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(0.3 * torch.randn(channels))
        self.beta = nn.Parameter(0.3 * torch.randn(channels))
        lowpass = torch.kaiser_window(12, periodic=False, beta=4.66) * torch.sinc((torch.arange(12) - 5.5) / 2)
        self.register_buffer("lowpass", (lowpass / lowpass.sum()).expand(channels, 1, 12).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        """Return (1, channels, samples) of (1, channels, samples)."""
        channels = x.shape[1]
        up = 2 * F.conv_transpose1d(F.pad(x, (5, 5), mode="replicate"), self.lowpass, stride=2, groups=channels)
        up = up[..., 15:-15]
        alpha, beta = torch.exp(self.alpha)[None, :, None], torch.exp(self.beta)[None, :, None]
        bent = up + torch.sin(alpha * up) ** 2 / (beta + 1e-9)
        return F.conv1d(F.pad(bent, (5, 6), mode="replicate"), self.lowpass, stride=2, groups=channels)


class BigVganLike(nn.Module):
    """Transposed convolutions and anti-aliased snakes (Lee et al. 2023): (1, 20, frames) -> (1, 1, samples)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv1d(20, width, 7, padding=3)
        self.up = nn.ConvTranspose1d(width, width // 2, 8, stride=4, padding=2)
        self.snakes = nn.ModuleList(SnakeBeta(width // 2) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv1d(width // 2, width // 2, 3, padding=d, dilation=d) for d in (1, 3))
        self.last = nn.Conv1d(width // 2, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        """Return the signal."""
        x = self.up(self.first(mel))
        for snake, conv in zip(self.snakes, self.convs, strict=True):
            x = x + conv(snake(x))
        return torch.tanh(self.last(x))


class DeepFilterLike(nn.Module):
    """Convolutions, a GRU, and a complex filter of three taps for each bin: (1, 2, frames, bins)."""

    def __init__(self, bins: int = 16, taps: int = 3) -> None:
        super().__init__()
        self.bins, self.taps = bins, taps
        self.first = nn.Conv2d(2, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.gru = nn.GRU(8 * bins, 32, batch_first=True)
        self.gain, self.filter = nn.Linear(32, bins), nn.Linear(32, 2 * taps * bins)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return the filtered spectrum, real and imaginary part in axis 1."""
        frames = spectrum.shape[2]
        x = torch.relu(self.norm(self.first(spectrum)))
        hidden = self.gru(x.permute(0, 2, 1, 3).reshape(1, frames, 8 * self.bins))[0]
        gained = spectrum * torch.sigmoid(self.gain(hidden))[:, None]
        weights = torch.tanh(self.filter(hidden)).reshape(1, frames, 2, self.taps, self.bins)
        padded = F.pad(gained, (0, 0, self.taps - 1, 0))
        real, imaginary = torch.zeros_like(gained[:, 0]), torch.zeros_like(gained[:, 1])
        for tap in range(self.taps):
            a, b = padded[:, 0, tap : tap + frames], padded[:, 1, tap : tap + frames]
            c, d = weights[:, :, 0, tap], weights[:, :, 1, tap]
            real, imaginary = real + a * c - b * d, imaginary + a * d + b * c
        return torch.stack((real, imaginary), dim=1)


class Attention(nn.Module):
    """Attention of four heads, whose queries, keys and values are one product taken apart by unbind."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return (1, tokens, width) of (1, tokens, width)."""
        _, tokens, width = x.shape
        apart = self.together(self.norm(x)).reshape(1, tokens, 3, self.heads, width // self.heads)
        query, key, value = apart.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5, dim=-1)
        return x + self.out((weights @ value).transpose(1, 2).reshape(1, tokens, width))


class ConformerConvolution(nn.Module):
    """The convolution module of a Conformer (Gulati et al. 2020): (1, frames, 32) -> (1, frames, 32)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.last = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, 15, padding=7, groups=width)
        self.batch = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what is added to the input."""
        y = F.glu(self.first(self.norm(x).transpose(1, 2)), dim=1)
        return x + self.last(F.silu(self.batch(self.depthwise(y)))).transpose(1, 2)


class HarmonicSource(nn.Module):
    """Nine harmonics of a running phase, wrapped at every sample, as in NSF: (1, samples) Hz -> (1, samples).

    Parameters
    ----------
    wrap : str
        ``floor``: x - floor(x); ``remainder``: x % 1; ``none``: the phase grows.
    """

    overtones: Tensor

    def __init__(self, wrap: str = "floor") -> None:
        super().__init__()
        self.wrap = wrap
        self.register_buffer("overtones", torch.arange(1.0, HARMONICS + 1)[None, :, None])
        self.linear = nn.Conv1d(HARMONICS, 1, 1)

    def forward(self, f0: Tensor) -> Tensor:
        """Return the excitation, full scale 1."""
        phase = torch.cumsum(f0[:, None] / RATE * self.overtones, dim=2)
        if self.wrap == "floor":
            phase = phase - torch.floor(phase)
        elif self.wrap == "remainder":
            phase = phase % 1
        return torch.tanh(self.linear(torch.sin(2 * torch.pi * phase)))[:, 0]


class LogMel(nn.Module):
    """A log-mel spectrogram by convolution: (1, samples) -> (1, 20, frames)."""

    basis: Tensor
    mel: Tensor

    def __init__(self, size: int = 128, hop: int = 32) -> None:
        super().__init__()
        self.hop = hop
        bins, window = size // 2 + 1, torch.hann_window(size)
        angle = 2 * torch.pi * torch.arange(bins)[:, None] * torch.arange(size)[None] / size
        self.register_buffer("basis", torch.cat((torch.cos(angle), torch.sin(angle)))[:, None] * window)
        edges = torch.linspace(0, bins - 1, 22)
        rise = (torch.arange(bins) - edges[:-2, None]) / (edges[1] - edges[0])
        self.register_buffer("mel", torch.clamp(torch.minimum(rise, 2 - rise), min=0))

    def forward(self, signal: Tensor) -> Tensor:
        """Return ln of the power in 20 triangular bands, floored at 1e-5."""
        real, imaginary = F.conv1d(signal[:, None], self.basis, stride=self.hop).chunk(2, dim=1)
        return torch.log(torch.clamp(self.mel @ (real**2 + imaginary**2), min=1e-5))


class HifiGanLike(nn.Module):
    """Transposed convolutions and dilated residual blocks (Kong et al. 2020): (1, 20, frames) -> (1, 1, samples)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv1d(20, width, 7, padding=3)
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(width >> i, width >> (i + 1), 8, stride=4, padding=2) for i in range(2)
        )
        self.blocks = nn.ModuleList(
            nn.Conv1d(width >> (i + 1), width >> (i + 1), 3, padding=d, dilation=d) for i in range(2) for d in (1, 3)
        )
        self.last = nn.Conv1d(width >> 2, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        """Return the signal."""
        x = self.first(mel)
        for place, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            for block in self.blocks[2 * place : 2 * place + 2]:
                x = x + block(F.leaky_relu(x, 0.1))
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


class AdaptiveBlock(nn.Module):
    """Instance norm with a scale and shift from a style, leaky relu and a convolution: StyleTTS' building block."""

    def __init__(self, width: int = 32, style: int = 16) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(width)
        self.style = nn.Linear(style, 2 * width)
        self.conv = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Return (1, width, frames) of (1, width, frames) and (1, style)."""
        gamma, beta = self.style(style)[..., None].chunk(2, dim=1)
        return x + self.conv(F.leaky_relu((1 + gamma) * self.norm(x) + beta, 0.2))
