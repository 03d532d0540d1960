"""Operators that move elements between channels, batch and the axes of an image."""

import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.backends.mil.operators.convolution import padded
from kokoro_nb.backends.mil.operators.registry import operator


@operator("pixel_shuffle")
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Spread channels over blocks of pixels; the channels of one block lie side by side."""
    return F.pixel_shuffle(x, upscale_factor)


@operator("pixel_unshuffle")
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """Undo `pixel_shuffle`."""
    return F.pixel_unshuffle(x, downscale_factor)


@operator("depth_to_space")
def depth_to_space(x: Tensor, block_size: int) -> Tensor:
    """Spread channels over blocks of pixels, as TensorFlow does; those of one block lie a stride apart."""
    batch, _, height, width = x.shape
    x = x.reshape(batch, block_size, block_size, -1, height, width).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(batch, -1, height * block_size, width * block_size)


@operator("space_to_depth")
def space_to_depth(x: Tensor, block_size: int) -> Tensor:
    """Undo `depth_to_space`."""
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // block_size, block_size, width // block_size, block_size)
    return x.permute(0, 3, 5, 1, 2, 4).reshape(batch, -1, height // block_size, width // block_size)


@operator("space_to_batch")
def space_to_batch(x: Tensor, block_shape: list[int], paddings: list[int]) -> Tensor:
    """Pad, then make an example of the batch of each place within a block, as TensorFlow does."""
    rows, columns = block_shape
    top, bottom, left, right = paddings
    x = padded(x, [(top, bottom), (left, right)])
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // rows, rows, width // columns, columns).permute(3, 5, 0, 1, 2, 4)
    return x.reshape(-1, channels, height // rows, width // columns)


@operator("batch_to_space")
def batch_to_space(x: Tensor, block_shape: list[int], crops: list[int]) -> Tensor:
    """Undo `space_to_batch`, cropping in place of padding."""
    rows, columns = block_shape
    top, bottom, left, right = crops
    _, channels, height, width = x.shape
    x = x.reshape(rows, columns, -1, channels, height, width).permute(2, 3, 4, 0, 5, 1)
    x = x.reshape(-1, channels, height * rows, width * columns)
    return padded(x, [(-top, -bottom), (-left, -right)])
