"""Layers written in other operators: norms in two passes, and the generator's residual blocks on planes.

A norm in two passes is the mean, then the variance of the centred signal. Planes are (batch, channels, 1, frames),
convolved in two dimensions: XNNPACK convolves in two dimensions, with the channels last: around a convolution in one
dimension a tensor is turned there and back, six times in a block. On planes a block is turned when it begins and when
it ends, as its norms, whose mean is over both axes of a plane, and its Snakes can be computed either way round.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch.nn.functional as F
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import AdaIN1d, AdaINResBlock1, TorchSTFT
from torch import Tensor, nn
from torch.nn.utils import remove_weight_norm
from torch.nn.utils.weight_norm import WeightNorm

from kokoro_nb.models import rewrites
from kokoro_nb.torch_private import pre_hooks, submodules


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
    """Make each module of one of these classes one of the other given for it inside; a copy made there stays one.

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
        centred = input - input.mean(-1, keepdim=True)
        normed = centred * ((centred * centred).mean(-1, keepdim=True) + self.eps).rsqrt()
        return _scaled(self, normed)


class TwoPassGroupNorm(nn.GroupNorm):
    """An `nn.GroupNorm` in two passes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what `nn.GroupNorm` would, (batch, channels, ...)."""
        grouped = input.reshape(input.shape[0], self.num_groups, -1)
        centred = grouped - grouped.mean(-1, keepdim=True)
        normed = centred * ((centred * centred).mean(-1, keepdim=True) + self.eps).rsqrt()
        return _scaled(self, normed.reshape(input.shape))


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
        return rewrites.snake_block(self, x.unsqueeze(2), s).squeeze(2)


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
