"""Strict float16 sums, against NumPy's float16 one number at a time in the documented order."""

from itertools import product

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil import accumulation

GENERATOR = np.random.default_rng(0)


def _half(*shape):
    return GENERATOR.normal(size=shape).astype(np.float16)


def _bits(tensor):
    return tensor.numpy().view(np.uint16)


def test_total_adds_the_last_axis_fastest():
    x = _half(3, 4, 5)
    expected = np.zeros(4, np.float16)
    for i, k in product(range(3), range(5)):
        expected = expected + x[i, :, k]
    result = accumulation.total(torch.tensor(x), [-1, 0])
    np.testing.assert_array_equal(_bits(result), expected.view(np.uint16))
    assert accumulation.total(torch.tensor(x), [2, 0], keep=True).shape == (1, 4, 1)
    turned = np.zeros(4, np.float16)  # another order gives another sum, so that the order is tested at all
    for k, i in product(range(5), range(3)):
        turned = turned + x[i, :, k]
    assert (turned != expected).any()


def test_product_and_mean():
    x = _half(6, 5)
    product, total = np.ones(5, np.float16), np.zeros(5, np.float16)
    for row in x:
        product, total = product * row, total + row
    for function, expected in ((accumulation.multiplied, product), (accumulation.mean, total / np.float16(6))):
        np.testing.assert_array_equal(_bits(function(torch.tensor(x), [0])), expected.view(np.uint16))


def test_running_sum_rounds_at_every_step_in_any_dtype():
    for dtype in (np.float16, np.float32):
        x = GENERATOR.normal(size=(2, 300)).astype(dtype)
        expected = x.copy()
        for i in range(1, 300):
            expected[:, i] = expected[:, i - 1] + x[:, i]
        np.testing.assert_array_equal(accumulation.running(torch.tensor(x), 1).numpy(), expected)


@pytest.mark.parametrize(("left", "right"), [((2, 1, 3, 7), (4, 7, 2)), ((7,), (7, 2)), ((3, 7), (7,))])
def test_matmul_adds_along_the_common_axis(left, right):
    x, y = _half(*left), _half(*right)
    shape = np.matmul(x, y).shape
    rows = x if x.ndim > 1 else x[None]
    columns = y if y.ndim > 1 else y[:, None]
    expected = np.zeros(
        (*np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2]), rows.shape[-2], columns.shape[-1]), np.float16
    )
    for k in range(7):
        expected = expected + rows[..., :, k : k + 1] * columns[..., k : k + 1, :]
    result = accumulation.matmul(torch.tensor(x), torch.tensor(y))
    np.testing.assert_array_equal(_bits(result), expected.reshape(shape).view(np.uint16))


def _convolved(x, weight, strides, dilations, groups):
    """Convolve one number at a time, by input channel and within it by tap."""
    kernel, per_group = weight.shape[2:], weight.shape[1]
    sizes = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)]
    result = np.zeros((x.shape[0], weight.shape[0], *sizes), np.float16)
    for place in np.ndindex(*result.shape):
        batch, out, *at = place
        first = out // (weight.shape[0] // groups) * per_group
        for channel, *tap in product(range(per_group), *map(range, kernel)):
            source = [a * s + t * d for a, t, s, d in zip(at, tap, strides, dilations, strict=True)]
            result[place] += x[(batch, first + channel, *source)] * weight[(out, channel, *tap)]
    return result


def _convolved_transposed(x, weight, strides, dilations, groups):
    kernel, (inside, outside) = weight.shape[2:], (x.shape[1] // groups, weight.shape[1])
    sizes = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)]
    result = np.zeros((x.shape[0], outside * groups, *sizes), np.float16)
    for batch, channel in np.ndindex(*x.shape[:2]):
        for *tap, out in product(*map(range, kernel), range(outside)):
            for at in np.ndindex(*x.shape[2:]):
                target = tuple(a * s + t * d for a, t, s, d in zip(at, tap, strides, dilations, strict=True))
                number = x[(batch, channel, *at)] * weight[(channel, out, *tap)]
                result[(batch, channel // inside * outside + out, *target)] += number
    return result


@pytest.mark.parametrize(
    ("function", "by_hand", "per_group"),
    [
        (accumulation.convolution, _convolved, lambda groups: (6, 4 // groups)),
        (accumulation.transposed_convolution, _convolved_transposed, lambda groups: (4, 3)),
    ],
)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("geometry", [((9,), (3,), (2,), (2,)), ((5, 6), (2, 3), (2, 1), (1, 2))])
def test_convolutions(geometry, groups, function, by_hand, per_group):
    size, kernel, strides, dilations = geometry
    x, weight = _half(2, 4, *size), _half(*per_group(groups), *kernel)
    result = function(torch.tensor(x), torch.tensor(weight), strides, dilations, groups)
    np.testing.assert_array_equal(_bits(result), by_hand(x, weight, strides, dilations, groups).view(np.uint16))
