"""The package's methods and layers in the other forms that patches ask for, each written once.

Rewrites of methods mark every change by the patch that asks for it. With no patch on, each computes what the original
computes, bit for bit, and the tests hold them to that; where an operator has two names, it stands under the one that
coremltools knows too (`*`, not `torch.multiply`). They replace methods of the speech model's classes, not of instances,
so that an exported graph keeps the module paths.

Layers change in one model: norms in two passes, and the generator's residual blocks on planes. A norm in two passes is
the mean, then the variance of the centred signal. Planes are (batch, channels, 1, frames), convolved in two dimensions:
XNNPACK convolves in two dimensions, with the channels last: around a convolution in one dimension a tensor is turned
there and back, six times in a block. On planes a block is turned when it begins and when it ends, as its norms, whose
mean is over both axes of a plane, and its Snakes can be computed either way round.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import AdaIN1d, AdainResBlk1d, AdaINResBlock1, SineGen, SourceModuleHnNSF, TorchSTFT
from torch import Tensor, nn
from torch.nn.utils import remove_weight_norm
from torch.nn.utils.weight_norm import WeightNorm

from kokoro_nb.models import noise
from kokoro_nb.torch_private import pre_hooks, submodules

ON: set[str] = set()  # the class-level patches in force; `patches.class_patches` alone changes it


def sine_phase(self: SineGen, f0_values: Tensor) -> Tensor:
    """Stand in for `SineGen._f02sine`: (1, samples, 9) Hz -> (1, samples, 9) sines.

    Of a block of 300 samples the original reads two in the middle, which are equal: with ``ramped_phase`` one is read.
    The initial phase, which is added to the first sample, neither reads.
    """
    if "ramped_phase" in ON:
        block = int(self.upsample_scale)
        f0_values = f0_values.reshape(1, -1, block, f0_values.shape[-1])[:, :, block // 2]
    rad = f0_values / self.sampling_rate
    rad = rad - torch.floor(rad) if "floor_phase" in ON else rad % 1
    if "ramped_phase" in ON:
        phase = torch.cumsum(rad, dim=1) * 2 * torch.pi
        return torch.sin(ramped(phase.transpose(1, 2) * block, block).transpose(1, 2))
    if "explicit_noise" in ON:
        rand_ini = noise.given().initial_phase.to(rad)
    elif "signal_noise" in ON:
        rand_ini = torch.zeros(f0_values.shape[0], f0_values.shape[2], dtype=rad.dtype)
    else:
        rand_ini = torch.rand(f0_values.shape[0], f0_values.shape[2], device=f0_values.device)
    # the fundamental begins at 0; joined and not written in place, as an export with writes takes twice as long
    begun = rad[:, :1] + torch.cat((torch.zeros_like(rand_ini[:, :1]), rand_ini[:, 1:]), dim=1)[:, None]
    rad = torch.cat((begun, rad[:, 1:]), dim=1)
    scale = self.upsample_scale
    rad = F.interpolate(rad.transpose(1, 2), scale_factor=1 / scale, mode="linear").transpose(1, 2)
    phase = torch.cumsum(rad, dim=1) * 2 * torch.pi
    phase = F.interpolate(phase.transpose(1, 2) * scale, scale_factor=scale, mode="linear").transpose(1, 2)
    return torch.sin(phase)


def ramped(x: Tensor, times: int) -> Tensor:
    """Return the last axis up-sampled by straight lines between the middles of the blocks, level at both ends.

    >>> ramped(torch.tensor([[0.0, 4.0]]), 2).tolist()
    [[0.0, 1.0, 3.0, 4.0]]
    """
    place = (torch.arange(times, dtype=x.dtype) + 0.5) / times - 0.5  # of integers TVM loses the half
    after, before = place.clamp(min=0), (-place).clamp(min=0)
    left = torch.cat([x[..., :1], x[..., :-1]], dim=-1)[..., None]
    right = torch.cat([x[..., 1:], x[..., -1:]], dim=-1)[..., None]
    joined = x[..., None] * (1 - after - before) + left * before + right * after
    return joined.reshape(*x.shape[:-1], -1)


def sine_source(self: SineGen, f0: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Stand in for `SineGen.forward`: (1, samples, 1) Hz -> harmonics with noise, voicing, noise."""
    overtones = torch.FloatTensor([[range(1, self.harmonic_num + 2)]]).to(f0.device)
    sines = self._f02sine(f0 * overtones) * self.sine_amp
    voiced = self._f02uv(f0)
    amplitude = voiced * self.noise_std + (1 - voiced) * self.sine_amp / 3
    if "explicit_noise" in ON:
        drawn = noise.given().harmonic.to(sines)
    elif "signal_noise" in ON:
        drawn = torch.sin(137 * sines) * torch.cos(211 * sines)
    else:
        drawn = torch.randn_like(sines)
    added = amplitude * drawn
    return sines * voiced + added, voiced, added


def source(self: SourceModuleHnNSF, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Stand in for `SourceModuleHnNSF.forward`: (1, samples, 1) Hz -> excitation, noise branch, voicing."""
    with torch.no_grad():
        sines, voiced, _ = self.l_sin_gen(x)
    excitation = self.l_tanh(self.l_linear(sines))
    if "explicit_noise" in ON:
        drawn = noise.given().branch.to(voiced)
    elif "signal_noise" in ON:
        drawn = torch.zeros_like(voiced)
    else:
        drawn = torch.randn_like(voiced)
    return excitation, drawn * self.sine_amp / 3, voiced


def stft_transform(self: CustomSTFT, waveform: Tensor) -> tuple[Tensor, Tensor]:
    """Stand in for `CustomSTFT.transform`: (batch, samples) -> magnitude and phase, (batch, bins, frames) each."""
    if self.center:
        pad = self.n_fft // 2
        mode = "reflect" if "exact_istft" in ON else self.pad_mode
        waveform = F.pad(waveform, (pad, pad), mode=mode)
    x = waveform.unsqueeze(1)
    real = F.conv1d(x, self.weight_forward_real, stride=self.hop_length)
    imag = F.conv1d(x, self.weight_forward_imag, stride=self.hop_length)
    floor = 1e-7 if "sqrt_epsilon" in ON else 1e-14
    magnitude = torch.sqrt(real**2 + imag**2 + floor)
    phase = torch.atan2(imag, real)
    cut = torch.logical_and(imag == 0, real < 0)
    if "where_phase" in ON:
        phase = torch.where(cut, torch.full_like(phase, torch.pi), phase)
    else:
        phase[cut] = torch.pi
    return magnitude, phase


def stft_inverse(self: CustomSTFT, magnitude: Tensor, phase: Tensor, length: int | None = None) -> Tensor:
    """Stand in for `CustomSTFT.inverse`: (batch, bins, frames) twice -> (batch, samples)."""
    real, imag = magnitude * torch.cos(phase), magnitude * torch.sin(phase)
    if "exact_istft" in ON:  # a real signal has every bin but the first and the last twice
        once = torch.ones(1, 1, 1, dtype=real.dtype)
        twice = torch.cat((once, torch.full((1, self.freq_bins - 2, 1), 2.0, dtype=real.dtype), once), dim=1)
        real, imag = real * twice, imag * twice
    waveform = F.conv_transpose1d(real, self.weight_backward_real, stride=self.hop_length) - F.conv_transpose1d(
        imag, self.weight_backward_imag, stride=self.hop_length
    )
    if "exact_istft" in ON:  # overlap-add weighs each sample by the sum of the squared windows that cover it; that
        # sum is 0 at the very first, which `center` cuts off
        squared = (self.window**2).to(real)[None, None]
        ones = torch.ones(1, 1, magnitude.shape[-1], dtype=real.dtype)
        waveform = waveform / F.conv_transpose1d(ones, squared, stride=self.hop_length).clamp(min=1e-11)
    if self.center:
        pad = self.n_fft // 2
        waveform = waveform[..., pad:-pad]
    return waveform if length is None else waveform[..., :length]


def residual_block(self: AdainResBlk1d, x: Tensor, s: Tensor) -> Tensor:
    """Stand in for `AdainResBlk1d.forward`: (1, channels, frames), (1, 128) -> (1, channels out, frames out)."""
    total = self._residual(x, s) + self._shortcut(x)
    if "constant_scale" in ON:
        return total * (1 / math.sqrt(2))
    return total * torch.rsqrt(torch.tensor(2))


def snake_block(self: AdaINResBlock1, x: Tensor, s: Tensor) -> Tensor:
    """Stand in for `AdaINResBlock1.forward`: (1, channels, frames), (1, 128) -> (1, channels, frames)."""
    steps = (self.convs1, self.convs2, self.adain1, self.adain2, self.alpha1, self.alpha2)
    for conv1, conv2, norm1, norm2, alpha1, alpha2 in zip(*steps, strict=True):
        y = conv1(_snake(norm1(x, s), alpha1))
        x = conv2(_snake(norm2(y, s), alpha2)) + x
    return x


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    """Return x + sin²(alpha x) / alpha, per channel (Ziyin et al. 2020, "Neural Networks Fail to Learn Periodic
    Functions and How to Fix It").
    """
    if "divided_snake" in ON:
        return x + torch.sin(alpha * x) ** 2 / alpha
    return x + (1 / alpha) * (torch.sin(alpha * x) ** 2)


@contextmanager
def _other_values(values: Sequence[tuple[nn.Module, str, Any]]) -> Iterator[None]:
    """Have each module hold the value that stands beside it under that attribute inside."""
    before = [(module, name, getattr(module, name)) for module, name, _ in values]
    for module, name, value in values:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def other_classes(
    modules: Iterable[nn.Module], classes: Mapping[type[nn.Module], type[nn.Module]]
) -> AbstractContextManager[None]:
    """Give each module of one of these classes the other class inside; a copy that is made there keeps it.

    It stays the same object, so that hooks on it stay too.
    """
    return _other_values([(one, "__class__", classes[type(one)]) for one in modules if type(one) in classes])


def modules_within(module: nn.Module) -> list[nn.Module]:
    """Return `module` and all modules in it: themselves, where `torch.export` hands out stand-ins while it traces.

    A stand-in has the attributes of what it stands for, and another class, which does not last.
    """
    found, waiting = {module: None}, [module]
    while waiting:
        inside = [part for part in submodules(waiting.pop()) if part is not None and part not in found]
        found |= dict.fromkeys(inside)
        waiting += inside
    return list(found)


def swap_stft(model: nn.Module) -> AbstractContextManager[None]:
    """Put a `CustomSTFT` of the same sizes in place of each `TorchSTFT`."""
    swapped = []
    for owner in model.modules():
        stft = getattr(owner, "stft", None)
        if isinstance(stft, TorchSTFT):
            dtype = next((weight.dtype for weight in owner.parameters()), stft.window.dtype)
            custom = CustomSTFT(stft.filter_length, stft.hop_length, stft.win_length).to(dtype).eval()
            swapped.append((owner, "stft", custom))
    return _other_values(swapped)


@contextmanager
def fold_weight_norm(model: nn.Module) -> Iterator[None]:
    """Compute each weight that ``weight_norm`` computes at every call, once."""
    folded = []
    for module in model.modules():
        for key, hook in list(pre_hooks(module).items()):
            if isinstance(hook, WeightNorm):
                before = dict(module.named_parameters(recurse=False))
                stale = module.__dict__.get(hook.name)  # the weight of the last call
                remove_weight_norm(module, hook.name)
                getattr(module, hook.name).requires_grad_(False)
                folded.append((module, key, hook, before, stale))
    try:
        yield
    finally:
        for module, key, hook, before, stale in reversed(folded):
            for name in dict(module.named_parameters(recurse=False)):
                delattr(module, name)
            _give(module, before)
            pre_hooks(module)[key] = hook  # hooks that others hung up or took down meanwhile stay as they are
            pre_hooks(module).move_to_end(key, last=False)
            if stale is not None:
                module.__dict__[hook.name] = stale


def make_contiguous(model: nn.Module) -> AbstractContextManager[None]:
    """Copy the weights of each `CustomSTFT`'s inverse, which are transposed views, in order."""
    transforms = [module for module in model.modules() if isinstance(module, CustomSTFT)]
    names = ("weight_backward_real", "weight_backward_imag")
    return _other_values([(stft, name, getattr(stft, name).contiguous()) for stft in transforms for name in names])


class TwoPassInstanceNorm1d(nn.InstanceNorm1d):
    """An `nn.InstanceNorm1d` in two passes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what `nn.InstanceNorm1d` would, (batch, channels, frames), planes with an axis of 1 before it."""
        return _scaled(self, _two_pass(input, self.eps))


class TwoPassGroupNorm(nn.GroupNorm):
    """An `nn.GroupNorm` in two passes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what `nn.GroupNorm` would, (batch, channels, ...)."""
        grouped = input.reshape(input.shape[0], self.num_groups, -1)
        return _scaled(self, _two_pass(grouped, self.eps).reshape(input.shape))


def _two_pass(x: Tensor, epsilon: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * ((centred * centred).mean(-1, keepdim=True) + epsilon).rsqrt()


def _scaled(norm: Any, normed: Tensor) -> Tensor:
    if not norm.affine:
        return normed
    shape = (1, -1, *(1,) * (normed.ndim - 2))
    return normed * norm.weight.view(shape) + norm.bias.view(shape)


def two_pass(model: nn.Module) -> AbstractContextManager[None]:
    """Write out the norms of `model`."""
    return other_classes(model.modules(), {nn.InstanceNorm1d: TwoPassInstanceNorm1d, nn.GroupNorm: TwoPassGroupNorm})


class PlaneConv1d(nn.Conv1d):
    """An `nn.Conv1d` of planes; its weight is (channels out, channels in, 1, width)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the same sums: (batch, channels in, 1, frames) -> (batch, channels out, 1, frames out)."""
        (stride,), (dilation,), edge = self.stride, self.dilation, int(self.padding[0])
        return F.conv2d(input, self.weight, self.bias, (1, stride), (0, edge), (1, dilation), self.groups)


class PlaneAdaIN1d(AdaIN1d):
    """An `AdaIN1d` of planes."""

    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        """Return (1, channels, 1, frames) of that and the style, (1, 128)."""
        h = self.fc(s)[..., None, None]
        half = h.size(1) // 2
        return (h[:, :half] + 1.0) * self.norm(x) + h[:, half:]


class PlaneBlock(AdaINResBlock1):
    """An `AdaINResBlock1` that computes on planes; the alphas of its Snakes are (1, channels, 1, 1)."""

    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        """Return what `AdaINResBlock1` would: (1, channels, frames), (1, 128) -> (1, channels, frames)."""
        return snake_block(self, x.unsqueeze(2), s).squeeze(2)


_ON_PLANES: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: PlaneConv1d,
    nn.InstanceNorm1d: TwoPassInstanceNorm1d,
    AdaIN1d: PlaneAdaIN1d,
    AdaINResBlock1: PlaneBlock,
}


@contextmanager
def on_planes(model: nn.Module) -> Iterator[None]:
    """Put the residual blocks of `model` on planes whose weights no hook computes."""
    blocks = [module for module in model.modules() if type(module) is AdaINResBlock1 and _fits(module)]
    inside = {module for block in blocks for module in block.modules()}
    before = {module: dict(module.named_parameters(recurse=False)) for module in inside}
    for module in inside:
        if type(module) is nn.Conv1d:
            _give(module, {"weight": module.weight.detach().unsqueeze(2)})
        elif isinstance(module, nn.ParameterList):
            for name, alpha in module.named_parameters():
                _give(module, {name: alpha.detach().unsqueeze(-1)})
    try:
        with other_classes(inside, _ON_PLANES):
            yield
    finally:
        for module, parameters in before.items():
            _give(module, parameters)


def _fits(block: nn.Module) -> bool:
    """Say whether each convolution is padded with so many zeros, and its weight is none that a hook computes."""
    convolutions = [one for one in block.modules() if isinstance(one, nn.Conv1d)]
    zeros = all(one.padding_mode == "zeros" and not isinstance(one.padding, str) for one in convolutions)
    return zeros and all(type(one) is nn.Conv1d and isinstance(one.weight, nn.Parameter) for one in convolutions)


def _give(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Have a module hold parameters, with the place in its order that those of their names have."""
    for name, one in values.items():
        parameter = one if isinstance(one, nn.Parameter) else nn.Parameter(one, requires_grad=False)
        module.register_parameter(name, parameter)
