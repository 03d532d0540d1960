"""Operators that arrange elements anew."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.errors import InputError

X = np.arange(24, dtype="float32").reshape(2, 3, 4)
WHOLE, TRUTHS = X.astype("int32"), X > 9
ONES = X.reshape(1, 2, 1, 12)
HOLED = X.copy()
HOLED[0, 0, 0], HOLED[1, 2, 3] = np.nan, -np.inf


def _ints(*numbers):
    return np.array(numbers, "int32")


def _case(inputs, expected=None, **more):
    return {"inputs": inputs, **more} | ({} if expected is None else {"expected": expected})


def _padded(pad, mode):
    return lambda x: torch.nn.functional.pad(x, pad, mode=mode)


CASES = {
    "reshape": [
        *(_case(x, shape=[-1, 6]) for x in (X, WHOLE, TRUTHS)),
        _case(X, shape=[0, -1, 0]),
        _case(X, opset="iOS16", shape=[0, -1, 2]),
        # iOS 17 counts axes for 0 from the right: the last is 4, then 3, and 1 where there is none
        _case(X, shape=[0, 2, 0, 0], expected=X.reshape(1, 2, 3, 4)),
    ],
    "reshape_like": [
        _case(
            {"x": X.reshape(6, 4), "ref_tensors": [np.zeros((2, 9, 3), "float32"), np.zeros((7, 2, 2, 3), "float32")]},
            X.reshape(2, 2, 2, 3),
            begins=(0, 1),
            ends=(1, 0),
            end_masks=(False, True),
        )
    ],
    "expand_dims": [_case(X, axes=axes) for axes in ([0], [1, -1], [-2, 0])],
    "squeeze": [_case(ONES), _case(ONES, axes=[-2, 0]), _case(ONES, X.reshape(2, 1, 12), axes=[0, 1])],
    "transpose": [_case(x, perm=perm) for x in (X, TRUTHS) for perm in ([2, 0, 1], [-1, 0, 1])],
    "flatten2d": [_case(X, axis=axis) for axis in (1, 2, -1, -2)],
    "shape": [_case(X), _case(WHOLE[0])],
    "concat": [
        *(_case({"values": [x, x[:, :1]]}, axis=1) for x in (X, WHOLE, TRUTHS)),
        # coremltools' own value forgets that they are interleaved
        _case({"values": [X, -X]}, np.stack([X, -X], -1).reshape(2, 3, 8), axis=-1, interleave=True),
        _case({"values": [np.int32(3), np.int32(4)]}, np.array([3, 4], "int32"), axis=0),
    ],
    "stack": [_case({"values": [x, x[::-1].copy()]}, axis=axis) for x in (X, TRUTHS) for axis in (0, -1)],
    "split": [
        _case(X, num_splits=3, axis=1),
        _case(WHOLE, split_sizes=[1, 3], axis=2),
        _case(X, num_splits=2, split_sizes=[1, 2], axis=1),
    ],
    "tile": [_case(x, reps=[2, 1, 3]) for x in (X, TRUTHS)],
    "pad": [
        _case(HOLED, pad=[1, 2]),
        _case(X, pad=[1, 0, 0, 2], constant_val=-1.5),
        _case(X, pad=[0, 1, 2, 3, 4, 5], constant_val=np.nan),
        *(_case(HOLED, pad=[2, 1, 0, 3], mode=mode) for mode in ("reflect", "replicate")),
        _case(X, _padded((3, 2), "reflect"), pad=[3, 2], mode="reflect"),
        _case(X, _padded((3, 9), "replicate"), pad=[3, 9], mode="replicate"),
    ],
    "reverse": [_case(X), _case(X, axes=[0]), _case(WHOLE, axes=[-1, 0]), _case(TRUTHS, axes=[1])],
    "reverse_sequence": [
        _case({"x": X, "lengths": _ints(3, 1)}, np.stack([X[0, ::-1], X[1]]), seq_axis=1, batch_axis=0),
    ],
    "fill": [
        _case({"shape": _ints(2, 3)}, np.full((2, 3), 1.5, "float32"), value=1.5),
        _case({"shape": _ints(4)}, np.full(4, True), value=True),
    ],
    "fill_like": [
        _case({"ref_tensor": X}, np.full(X.shape, np.nan, "float32"), value=np.nan),
        _case({"ref_tensor": X}, np.full(X.shape, 3, "int32"), value=np.int32(3)),
    ],
    "band_part": [
        *(_case(X, lower=low, upper=up) for low, up in ((0, -1), (1, 2))),
        # coremltools multiplies by 0, which keeps NaN; its description says that what is outside becomes zero
        _case(HOLED, np.tril(HOLED), lower=-1, upper=0),
        _case(TRUTHS, lower=0, upper=-1),
    ],
}


def test_a_mirror_longer_than_the_signal_is_refused(mil):
    with pytest.raises(InputError, match="pad 'result' mirrors 4 elements of an axis of 4; it can mirror 3"):
        mil.run("pad", X, pad=[4, 0], mode="reflect")


def test_a_fill_is_a_tensor_of_its_own(mil):
    (filled,) = mil.run("fill_like", {"ref_tensor": X}, value=1.0)
    filled += 1
    assert (filled == 2).all()


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

CASES |= {
    "pixel_shuffle": [{"inputs": DEEP, "upscale_factor": 2, "expected": lambda x: F.pixel_shuffle(x, 2)}],
    "pixel_unshuffle": [
        {"inputs": WIDE, "downscale_factor": np.uint32(2), "expected": lambda x: F.pixel_unshuffle(x, 2)}
    ],
    "depth_to_space": [{"inputs": DEEP, "block_size": 2, "expected": _spread(DEEP)}],
    "space_to_depth": [{"inputs": WIDE, "block_size": 2, "expected": _gathered(WIDE)}],
    "space_to_batch": [{"inputs": WIDE, "block_shape": BLOCK, "paddings": PADS, "expected": _batched(WIDE)}],
    "batch_to_space": [{"inputs": _batched(WIDE), "block_shape": BLOCK, "crops": PADS, "expected": WIDE}],
}
