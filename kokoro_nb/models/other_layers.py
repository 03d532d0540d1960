"""Layers written in other operators: norms in two passes, and the generator's residual blocks on planes.

A norm in two passes is the mean, then the variance of the centred signal. Planes are (batch, channels, 1, frames),
convolved in two dimensions: XNNPACK convolves in two dimensions, with the channels last: around a convolution in one
dimension a tensor is turned there and back, six times in a block. On planes a block is turned when it begins and when
it ends, as its norms, whose mean is over both axes of a plane, and its Snakes can be computed either way round.
"""

import torch
import torch.nn.functional as F
from kokoro.istftnet import AdaIN1d, AdaINResBlock1
from torch import Tensor, nn

from kokoro_nb.models import rewrites
from kokoro_nb.models.replaced_parts import Undo, change_classes, plain_convolution


class TwoPassInstanceNorm1d(nn.InstanceNorm1d):
    """An `nn.InstanceNorm1d` in two passes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what `nn.InstanceNorm1d` would, (batch, channels, frames)."""
        centred = input - input.mean(-1, keepdim=True)
        normed = centred * ((centred * centred).mean(-1, keepdim=True) + self.eps).rsqrt()
        if self.affine:
            normed = normed * self.weight[:, None] + self.bias[:, None]
        return normed


class TwoPassGroupNorm(nn.GroupNorm):
    """An `nn.GroupNorm` in two passes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what `nn.GroupNorm` would, (batch, channels, ...)."""
        grouped = input.reshape(input.shape[0], self.num_groups, -1)
        centred = grouped - grouped.mean(-1, keepdim=True)
        normed = centred * ((centred * centred).mean(-1, keepdim=True) + self.eps).rsqrt()
        normed = normed.reshape(input.shape)
        if self.affine:
            shape = (1, -1, *(1,) * (input.ndim - 2))
            normed = normed * self.weight.view(shape) + self.bias.view(shape)
        return normed


def two_pass(model: nn.Module) -> Undo:
    """Write out the norms of `model`; return what undoes it."""
    written_out = {nn.InstanceNorm1d: TwoPassInstanceNorm1d, nn.GroupNorm: TwoPassGroupNorm}
    return change_classes({one: written_out[type(one)] for one in model.modules() if type(one) in written_out})


class PlaneConv1d(nn.Conv1d):
    """An `nn.Conv1d` of planes; its weight is (channels out, channels in, 1, width)."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the same sums: (batch, channels in, 1, frames) -> (batch, channels out, 1, frames out)."""
        (stride,), (dilation,), edge = self.stride, self.dilation, int(self.padding[0])
        return F.conv2d(input, weight, bias, (1, stride), (0, edge), (1, dilation), self.groups)


class PlaneInstanceNorm1d(nn.InstanceNorm1d):
    """An `nn.InstanceNorm1d` of planes, in two passes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what `nn.InstanceNorm1d` would, (batch, channels, 1, frames)."""
        centred = input - input.mean((2, 3), keepdim=True)
        normed = centred * torch.rsqrt((centred * centred).mean((2, 3), keepdim=True) + self.eps)
        if self.affine:
            normed = normed * self.weight[:, None, None] + self.bias[:, None, None]
        return normed


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
    nn.InstanceNorm1d: PlaneInstanceNorm1d,
    TwoPassInstanceNorm1d: PlaneInstanceNorm1d,
    AdaIN1d: PlaneAdaIN1d,
    AdaINResBlock1: PlaneBlock,
}


def on_planes(model: nn.Module) -> Undo:
    """Put the residual blocks of `model` on planes whose weights no hook computes; return what undoes it."""
    blocks = [module for module in model.modules() if type(module) is AdaINResBlock1 and _fits(module)]
    inside = {module for block in blocks for module in block.modules()}
    before = {module: dict(module._parameters) for module in inside}
    for module in inside:
        if type(module) is nn.Conv1d:
            _put(module, "weight", module.weight.detach().unsqueeze(2))
        elif isinstance(module, nn.ParameterList):
            for name, alpha in module.named_parameters():
                _put(module, name, alpha.detach().unsqueeze(-1))
    undo_classes = change_classes({one: _ON_PLANES[type(one)] for one in inside if type(one) in _ON_PLANES})

    def undo() -> None:
        undo_classes()
        for module, parameters in before.items():
            module._parameters.update(parameters)

    return undo


def _fits(block: nn.Module) -> bool:
    return all(plain_convolution(module) for module in block.modules() if isinstance(module, nn.Conv1d))


def _put(module: nn.Module, name: str, values: Tensor) -> None:
    module._parameters[name] = nn.Parameter(values, requires_grad=False)
