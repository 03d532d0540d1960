"""Small programs with random weights: healthy ones, and those that a released runtime or converter gets wrong."""

import torch
from torch import nn
from torch.nn import functional as F


def seeded(make, inputs, seed=0):
    """Return a module and its inputs, made with PyTorch's random numbers set to `seed`, which are left as they were."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return make().eval().requires_grad_(False), inputs()


class Norm(nn.Module):
    """Instance norm with the variance written out."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred * torch.rsqrt(variance + 1e-5)


class Tiny(nn.Module):
    """Everything that a fault can be planted at, on (1, 4, 12)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.norm = Norm()
        self.style = nn.Linear(4, 8)
        self.square = nn.Linear(4, 4)
        self.activation = nn.LeakyReLU(0.2)
        self.gelu = nn.GELU()

    def forward(self, x, s):
        gamma, beta = self.style(s).unsqueeze(-1).chunk(2, dim=1)
        y = self.norm(self.conv(x)) * (1 + gamma) + beta
        y = self.activation(y) + x
        y = nn.functional.pad(torch.cat([y, torch.sin(y)], 1), (2, 2), mode="reflect")[:, :, 1:13]
        z = self.gelu(self.square(y[:, :4].transpose(1, 2)))
        return torch.exp(z.clamp(-2.0, 2.0)) / (y[:, 4:8].transpose(1, 2) + 3.0)


def tiny_inputs():
    """Return the inputs of `Tiny`."""
    source = torch.Generator().manual_seed(1)
    return {"x": torch.randn(1, 4, 12, generator=source), "s": torch.randn(1, 4, generator=source)}


class Attentive(nn.Module):
    """Convolution, activation, layer norm, products and softmax, (1, 8, 16) -> (1, 16, 16); a fault is an argument.

    `between` stands behind the activation; `dim` is that of the softmax, whose shape does not tell.
    """

    def __init__(self, slope=0.1, eps=1e-5, dim=-1, between=None):
        super().__init__()
        self.conv, self.activation = nn.Conv1d(8, 16, 3, padding=1), nn.LeakyReLU(slope)
        self.norm = nn.LayerNorm(16, eps=eps)
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
        self.dim, self.between = dim, between or nn.Identity()

    def forward(self, x):
        y = self.between(self.activation(self.conv(x))).transpose(1, 2)
        return self.last(torch.softmax(self.first(self.norm(y)), self.dim))


class OverflowingCast(nn.Module):
    """Sends a value, and a million with it, through float16, where that does not fit."""

    def forward(self, x):
        return (x.abs() + 1e6).half().float() - 1e6


class InfinityLessInfinity(nn.Module):
    """Takes an infinity from itself; it begins where it is made."""

    def forward(self, x):
        large = (x.abs() + 3e38) * 3e38
        return x + (large - large)


class Masked(nn.Module):
    """Makes an infinity that a selection hides."""

    def forward(self, x):
        large = (x.abs() + 3e38) * 3e38
        return torch.where(large < float("inf"), large, x)


def attentive(seed=0, **fault):
    """Return `Attentive`, healthy or with a fault, and its input."""
    draw = torch.Generator().manual_seed(seed + 1)
    return seeded(lambda: Attentive(**fault), lambda: {"x": torch.randn(1, 8, 16, generator=draw)}, seed)


class HifiGanLike(nn.Module):
    """A convolution, a transposed one and a dilated residual one (Kong et al. 2020): (1, 20, 24) -> (1, 1, 96)."""

    def __init__(self):
        super().__init__()
        self.first, self.up = nn.Conv1d(20, 16, 7, padding=3), nn.ConvTranspose1d(16, 8, 8, stride=4, padding=2)
        self.block, self.last = nn.Conv1d(8, 8, 3, padding=3, dilation=3), nn.Conv1d(8, 1, 7, padding=3)

    def forward(self, mel):
        x = self.up(F.leaky_relu(self.first(mel), 0.1))
        x = x + self.block(F.leaky_relu(x, 0.1))
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


class TokenLstm(nn.Module):
    """Embedding and an LSTM in both directions: (1, tokens) -> (1, tokens, 32)."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 16, batch_first=True, bidirectional=True)

    def forward(self, ids):
        return self.lstm(self.embedding(ids))[0]


class AdaptiveBlock(nn.Module):
    """Instance norm with a scale and shift from a style, leaky relu and a convolution: StyleTTS' building block."""

    def __init__(self, width=32):
        super().__init__()
        self.norm, self.style = nn.InstanceNorm1d(width), nn.Linear(4, 2 * width)
        self.conv = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x, style):
        gamma, beta = self.style(style)[..., None].chunk(2, dim=1)
        return x + self.conv(F.leaky_relu((1 + gamma) * self.norm(x) + beta, 0.2))


def adaptive(x):
    """Return `AdaptiveBlock`, its input made by `x` when PyTorch's random numbers are set, and a style."""
    return seeded(AdaptiveBlock, lambda: {"x": x(), "style": torch.randn(1, 4)})


def offset_channels():
    """Channels of mean 10 and deviation 0.01: what apache/tvm#19592 says of a layer norm."""
    module, inputs = adaptive(lambda: torch.randn(1, 32, 960))
    inputs["x"][:, :6] = 10 + 0.01 * inputs["x"][:, :6]
    return module, inputs


class HarmonicSource(nn.Module):
    """Nine harmonics of a running phase, as in NSF; ``wrap``: by floor, by remainder, or not at all."""

    def __init__(self, wrap):
        super().__init__()
        self.wrap, self.linear = wrap, nn.Conv1d(9, 1, 1)
        self.register_buffer("overtones", torch.arange(1.0, 10)[None, :, None])

    def forward(self, f0):
        phase = torch.cumsum(f0[:, None] / 24000 * self.overtones, dim=2)
        if self.wrap == "floor":
            phase = phase - torch.floor(phase)
        elif self.wrap == "remainder":
            phase = phase % 1
        return torch.tanh(self.linear(torch.sin(2 * torch.pi * phase)))[:, 0]


def harmonics(wrap, samples):
    """Return `HarmonicSource` and a pitch near 200 Hz."""
    return seeded(lambda: HarmonicSource(wrap), lambda: {"f0": (180 + 40 * torch.rand(1, 1)).repeat(1, samples)})


def running_phase():
    """A phase that grows for half a second: as in hexgrad/kokoro#353."""
    return harmonics("none", 12000)


class SpectralPhase(nn.Module):
    """The phase of an STFT by convolution, read by a convolution, as Kokoro's generator reads it."""

    def __init__(self, size=20):
        super().__init__()
        bins, window = size // 2 + 1, torch.hann_window(size)
        angle = 2 * torch.pi * torch.arange(bins)[:, None] * torch.arange(size)[None] / size
        self.register_buffer("cosine", torch.cos(angle)[:, None] * window)
        self.register_buffer("sine", -torch.sin(angle)[:, None] * window)
        self.after = nn.Conv1d(bins, 4, 3, padding=1)

    def forward(self, signal):
        real, imaginary = (F.conv1d(signal[:, None], one, stride=5) for one in (self.cosine, self.sine))
        return self.after(torch.atan2(imaginary, real))


def phase_of_silence():
    """The phase of a signal with a pause of zeros: as in pytorch/pytorch#162570."""
    module, inputs = seeded(SpectralPhase, lambda: {"signal": torch.randn(1, 200)})
    inputs["signal"][:, 60:140] = 0
    return module, inputs


class Applied(nn.Module):
    """A function between two convolutions, or on its own: `parts` are modules that it may use."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, one in parts.items():
            self.register_module(name, one) if isinstance(one, nn.Module) else self.register_buffer(name, one)

    def forward(self, x):
        return self.function(self, x)


def applied(function, x, **parts):
    """Return a function of a module's `parts` and an input, and that input; both are made when they are called."""
    return seeded(lambda: Applied(function, **{name: make() for name, make in parts.items()}), lambda: {"x": x()})


def tanh_gelu():
    """The tanh form of gelu between two products: as in pytorch/executorch#22851."""
    return applied(
        lambda own, x: own.last(F.gelu(own.first(x), approximate="tanh")),
        lambda: 2 * torch.randn(1, 20, 24),
        first=lambda: nn.Linear(24, 96),
        last=lambda: nn.Linear(96, 24),
    )


def drawn_noise():
    """A decoder that draws its noise inside, which TVM draws once, at import."""
    return applied(
        lambda own, x: own.last(own.first(x) + torch.randn(1, 8, 64)),
        lambda: torch.randn(1, 4, 64),
        first=lambda: nn.Conv1d(4, 8, 3, padding=1),
        last=lambda: nn.Conv1d(8, 1, 3, padding=1),
    )


def frame_table():
    """Rows found by times that are whole multiples of the step."""
    return applied(
        lambda own, x: own.table(torch.div(x, own.step, rounding_mode="floor").long()),
        lambda: torch.arange(1.0, 25.0)[None] / 4,
        step=lambda: torch.tensor(0.1),
        table=lambda: nn.Embedding(64, 8),
    )


def pitch_features():
    """Features of a pitch in units of 96000 Hz, a constant beyond what float16 holds."""
    return applied(
        lambda own, x: torch.sin(own.conv(400 * (x / own.rate))),
        lambda: 100 + 200 * torch.rand(1, 1, 40),
        rate=lambda: torch.full((1, 1, 1), 96000.0),
        conv=lambda: nn.Conv1d(1, 8, 3, padding=1),
    )


def pooled_lstm():
    """The mean of an LSTM's states, whose number a trace takes from a shorter example."""
    return applied(
        lambda own, x: own.linear(own.lstm(x)[0].sum(1) / float(x.shape[1])),
        lambda: torch.randn(1, 48, 16),
        lstm=lambda: nn.LSTM(16, 24, batch_first=True),
        linear=lambda: nn.Linear(24, 8),
    )


def mel():
    """Return `HifiGanLike` and its input."""
    return seeded(HifiGanLike, lambda: {"mel": torch.randn(1, 20, 24)})


def backward_lstm():
    """An LSTM in both directions over padding, and what it was rewritten from: as in soniqo/speech-swift#173."""
    module, inputs = seeded(TokenLstm, lambda: {"ids": torch.randint(1, 50, (1, 10))})
    return module, {"ids": F.pad(inputs["ids"], (0, 14))}, (module, inputs)


def padded_norm():
    """Instance norm over a buffer that is longer than the speech: as in pytorch/pytorch#81985."""
    module, inputs = adaptive(lambda: torch.randn(1, 32, 24) + 1)
    return module, {**inputs, "x": F.pad(inputs["x"], (0, 168))}, (module, inputs)


class Overlapped(nn.Module):
    """Frames added up by a transposed convolution, divided by the sum of the windows, or not."""

    def __init__(self, weighted):
        super().__init__()
        self.weighted, self.conv = weighted, nn.Conv1d(9, 9, 3, padding=1)
        self.register_buffer("window", torch.hann_window(16)[None, None] * torch.randn(9, 1, 1))
        self.register_buffer("squared", torch.hann_window(16)[None, None] ** 2)

    def forward(self, x):
        signal = F.conv_transpose1d(self.conv(x), self.window, stride=4)[..., 8:-8]
        if self.weighted:
            signal = signal / F.conv_transpose1d(torch.ones_like(x[:, :1]), self.squared, stride=4)[..., 8:-8]
        return signal[:, 0]


def unweighted():
    """An inverse STFT without the sum of the windows, 1.5 times too loud: as in FluidInference/FluidAudio#852."""
    right, inputs = seeded(lambda: Overlapped(True), lambda: {"x": torch.randn(1, 9, 24)})
    return seeded(lambda: Overlapped(False), dict)[0], inputs, (right, inputs)


class LeftPadded(nn.Module):
    """A transposed convolution whose output padding is imitated by a zero before its input."""

    def __init__(self, right):
        super().__init__()
        self.weight, self.bias, self.groups = right.weight, right.bias, right.groups

    def forward(self, x):
        made = F.conv_transpose1d(F.pad(x, (1, 0)), self.weight, self.bias, stride=2, padding=1, groups=self.groups)
        return made[..., 1:]


def left_padded():
    """Output padding imitated by padding at the left, a frame late: as in Blaizzy/mlx-audio#859."""

    def make():
        up = nn.ConvTranspose1d(8, 8, 3, stride=2, padding=1, output_padding=1, groups=8)
        return nn.Sequential(nn.Conv1d(8, 8, 3, padding=1), up, nn.Conv1d(8, 4, 3, padding=1))

    right, inputs = seeded(make, lambda: {"input": torch.randn(1, 8, 28)})
    first, up, last = right
    return nn.Sequential(first, LeftPadded(up), last).eval(), inputs, (right, inputs)
