"""A convolution as one product of matrices: the rows are what its kernel sees at each position ("im2col").

Chellapilla, Puri and Simard 2006, "High Performance Convolutional Neural Networks for Document Processing". Some
runtimes multiply matrices faster than they convolve; the price is memory, the kernel's width times the input.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.models.replaced_parts import plain_convolution


class Im2colConv1d(nn.Conv1d):
    """An `nn.Conv1d` of stride 1 that computes the same sums as a product; its weight is (channels out, width * in).

    Parameters
    ----------
    conv : torch.nn.Conv1d
        See `fits`. Its bias is shared, its weight copied.
    """

    def __init__(self, conv: nn.Conv1d) -> None:
        sizes = (conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation)
        super().__init__(*sizes, bias=False, device="meta")  # type: ignore[arg-type]
        flat = conv.weight.detach().permute(0, 2, 1).reshape(conv.out_channels, -1).contiguous()
        self.weight, self.bias = nn.Parameter(flat, requires_grad=False), conv.bias
        self.train(conv.training)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return what `nn.Conv1d` would: (batch, channels in, frames) -> (batch, channels out, frames out)."""
        (width,), (step,), edge = self.kernel_size, self.dilation, int(self.padding[0])
        padded = F.pad(input.transpose(1, 2), (0, 0, edge, edge))
        frames = padded.shape[1] - step * (width - 1)
        seen = torch.cat([padded[:, place * step : place * step + frames] for place in range(width)], dim=2)
        return F.linear(seen, weight, bias).transpose(1, 2)


def fits(module: nn.Module) -> bool:
    """Say whether `module` is a plain convolution that `Im2colConv1d` can stand in for: no hook computes its weight."""
    return (
        plain_convolution(module)
        and isinstance(module, nn.Conv1d)
        and (module.stride, module.groups) == ((1,), 1)
        and module.kernel_size > (1,)
    )


def install(model: nn.Module) -> Callable[[], None]:
    """Put an `Im2colConv1d` in place of every convolution of `model` that fits; return what takes them out again."""
    swapped = [
        (owner, name, conv)
        for owner in model.modules()
        for name, conv in owner.named_children()
        if fits(conv) and isinstance(conv, nn.Conv1d)
    ]
    for owner, name, conv in swapped:
        owner._modules[name] = Im2colConv1d(conv)

    def undo() -> None:
        for owner, name, conv in swapped:
            owner._modules[name] = conv

    return undo
