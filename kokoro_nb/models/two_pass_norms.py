"""Instance norm and group norm written out: the mean, then the variance of the centred signal, in plain operators."""

from torch import Tensor, nn

from kokoro_nb.models.replaced_parts import Undo, change_classes


class TwoPassInstanceNorm1d(nn.InstanceNorm1d):
    """An `nn.InstanceNorm1d` in two passes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what `nn.InstanceNorm1d` would, (batch, channels, frames)."""
        centred = input - self._mean(input)
        normed = centred * (self._mean(centred * centred) + self.eps).rsqrt()
        if self.affine:
            normed = normed * self.weight[:, None] + self.bias[:, None]
        return normed

    def _mean(self, x: Tensor) -> Tensor:
        """Return the mean of each channel, (batch, channels, 1)."""
        return x.mean(-1, keepdim=True)


class PlaneMeanInstanceNorm1d(TwoPassInstanceNorm1d):
    """An `nn.InstanceNorm1d` in two passes whose means are over two axes of four, the second of one."""

    def _mean(self, x: Tensor) -> Tensor:
        """Return the mean of each channel, (batch, channels, 1)."""
        return x.unsqueeze(-1).mean((2, 3), keepdim=True).view(x.shape[0], x.shape[1], 1)


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
