"""Elements moved between channels, batch and image."""

import numpy as np
import torch.nn.functional as F

DEEP = np.arange(2 * 8 * 2 * 3, dtype="float32").reshape(2, 8, 2, 3)
WIDE = np.arange(2 * 2 * 4 * 6, dtype="float32").reshape(2, 2, 4, 6)


def _spread(x):
    """Write depth_to_space out: channel (dy * 2 + dx) * 2 + c goes to channel c, dy down and dx to the right."""
    y = np.zeros((2, 2, 4, 6), "float32")
    for dy, dx, c in np.ndindex(2, 2, 2):
        y[:, c, dy::2, dx::2] = x[:, (dy * 2 + dx) * 2 + c]
    return y


def _gathered(x):
    y = np.zeros((2, 8, 2, 3), "float32")
    for dy, dx, c in np.ndindex(2, 2, 2):
        y[:, (dy * 2 + dx) * 2 + c] = x[:, c, dy::2, dx::2]
    return y


def _batched(x):
    """Write space_to_batch out: the examples of place (dy, dx) of a block of 2 by 3 follow one another."""
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 3)])
    return np.concatenate([padded[:, :, dy::2, dx::3] for dy in range(2) for dx in range(3)])


BLOCK, PADS = [2, 3], np.array([[1, 1], [0, 3]], "int32")

CASES = {
    "pixel_shuffle": [{"inputs": DEEP, "upscale_factor": 2, "expected": lambda x: F.pixel_shuffle(x, 2)}],
    "pixel_unshuffle": [
        {"inputs": WIDE, "downscale_factor": np.uint32(2), "expected": lambda x: F.pixel_unshuffle(x, 2)}
    ],
    "depth_to_space": [{"inputs": DEEP, "block_size": 2, "expected": _spread(DEEP)}],
    "space_to_depth": [{"inputs": WIDE, "block_size": 2, "expected": _gathered(WIDE)}],
    "space_to_batch": [{"inputs": WIDE, "block_shape": BLOCK, "paddings": PADS, "expected": _batched(WIDE)}],
    "batch_to_space": [{"inputs": _batched(WIDE), "block_shape": BLOCK, "crops": PADS, "expected": WIDE}],
}
