"""Operators that move elements between channels, batch and the axes of an image."""

import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.backends.mil.operators.convolution import padded
from kokoro_nb.backends.mil.operators.registry import Site, ints, operator


@operator("pixel_shuffle")
def pixel_shuffle(site: Site, x: Tensor, upscale_factor: Tensor) -> Tensor:
    """Spread channels over blocks of pixels; the channels of one block lie side by side."""
    return F.pixel_shuffle(x, int(upscale_factor))


@operator("pixel_unshuffle")
def pixel_unshuffle(site: Site, x: Tensor, downscale_factor: Tensor) -> Tensor:
    """Undo `pixel_shuffle`."""
    return F.pixel_unshuffle(x, int(downscale_factor))


@operator("depth_to_space")
def depth_to_space(site: Site, x: Tensor, block_size: Tensor) -> Tensor:
    """Spread channels over blocks of pixels, as TensorFlow does; those of one block lie a stride apart."""
    size = int(block_size)
    batch, channels, height, width = x.shape
    x = x.reshape(batch, size, size, channels // size**2, height, width).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(batch, channels // size**2, height * size, width * size)


@operator("space_to_depth")
def space_to_depth(site: Site, x: Tensor, block_size: Tensor) -> Tensor:
    """Undo `depth_to_space`."""
    size = int(block_size)
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // size, size, width // size, size).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(batch, channels * size**2, height // size, width // size)


@operator("space_to_batch")
def space_to_batch(site: Site, x: Tensor, block_shape: Tensor, paddings: Tensor) -> Tensor:
    """Pad, then make an example of the batch of each place within a block, as TensorFlow does."""
    rows, columns = ints(block_shape)
    numbers = ints(paddings)
    x = padded(x, [(numbers[0], numbers[1]), (numbers[2], numbers[3])])
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // rows, rows, width // columns, columns).permute(3, 5, 0, 1, 2, 4)
    return x.reshape(batch * rows * columns, channels, height // rows, width // columns)


@operator("batch_to_space")
def batch_to_space(site: Site, x: Tensor, block_shape: Tensor, crops: Tensor) -> Tensor:
    """Undo `space_to_batch`, cropping in place of padding."""
    rows, columns = ints(block_shape)
    numbers = ints(crops)
    batch, channels, height, width = x.shape
    x = x.reshape(rows, columns, batch // (rows * columns), channels, height, width).permute(2, 3, 4, 0, 5, 1)
    x = x.reshape(batch // (rows * columns), channels, height * rows, width * columns)
    return padded(x, [(-numbers[0], -numbers[1]), (-numbers[2], -numbers[3])])
