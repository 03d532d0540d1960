"""The bounds of families of operators where axes are many, few or empty, and the orders in which sums are taken."""

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.locate.family_bounds import ATEN, U, agrees, bound, drawn, moments, of_sum


@pytest.mark.parametrize("named", [{"dim": [0]}, {"dim": [-1]}, {"dim": None}])
def test_the_sum_of_one_number(named):
    found, y = bound(ATEN.sum.dim_IntList, self=torch.tensor(-3.0).double(), **named)
    agrees(found, of_sum(y, 9.0, 1, 1.2))


def test_pools_over_two_axes_over_all_and_of_nothing():
    x = drawn(2, 3, 8, 12)
    for size in ([2, 3], [4, 4]):
        found, y = bound(ATEN.avg_pool2d.default, self=x, kernel_size=size, stride=[3])
        agrees(found, of_sum(y, F.avg_pool2d(x**2, size, 3) / math.prod(size), math.prod(size)))
    for size in ([1, 1], [2, 4]):
        found, y = bound(ATEN.adaptive_avg_pool2d.default, self=x, output_size=size)
        count = 96 / math.prod(size)
        agrees(found, of_sum(y, F.adaptive_avg_pool2d(x**2, size) / count, count))
    found, _ = bound(ATEN.adaptive_avg_pool1d.default, self=drawn(0, 2, 12), output_size=[3])
    assert found.shape == (0, 2, 3)


def normed(x, rows, shaped, eps, weight, bias, y):
    """Return the bound of a norm with factors in the shape of `x`, over `rows`."""
    mean, relative = moments(rows.numpy())
    spread = rows.numpy().var(-1)
    inverse = 1 / np.sqrt(spread + eps)
    parts = (mean * inverse, relative * spread / (spread + eps) / 2, inverse)
    off, slope, inverse = (shaped(torch.from_numpy(one)).numpy() for one in parts)
    gain, x, y, bias = weight.abs().numpy(), x.numpy(), y.numpy(), bias.numpy()
    return gain * (off + 4 * U * np.abs(x) * inverse) + np.abs(y - bias) * (slope + 4 * U) + 4 * U * np.abs(y)


@pytest.mark.parametrize("size", [(), (7,), (2, 3, 5)])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_norms_of_any_number_of_axes(size, scale):
    x, eps = scale * (1 + drawn(4, 6, *size)), 0.01 * scale**2
    place, weight, bias = (1, 6, *(1 for _ in size)), drawn(6), drawn(6)
    given = {"input": x, "weight": weight, "bias": bias}
    factors = (weight.reshape(place), bias.reshape(place))
    stats = {"training": True, "momentum": 0.1, "eps": eps}
    none = {"running_mean": None, "running_var": None}
    found, y = bound(ATEN.batch_norm.default, **given, **none, **stats, cudnn_enabled=False)
    batch = normed(x, x.transpose(0, 1).reshape(6, -1), lambda one: one.reshape(place), eps, *factors, y)
    agrees(found, batch)
    (found, *rest), _ = bound(ATEN._native_batch_norm_legit.no_stats, **given, **stats)
    agrees(found, batch)
    assert rest == [None, None]
    across = (4, 6, *place[2:])
    if size:
        named = {**given, **none, "use_input_stats": True, "momentum": 0.1, "eps": eps, "cudnn_enabled": False}
        found, y = bound(ATEN.instance_norm.default, **named)
        agrees(found, normed(x, x.reshape(4, 6, -1), lambda one: one.reshape(across), eps, *factors, y))
    found, y = bound(ATEN.group_norm.default, **given, num_groups=2, eps=eps)
    rows = x.reshape(4, 2, -1)
    agrees(found, normed(x, rows, lambda one: one.repeat_interleave(3, -1).reshape(across), eps, *factors, y))
    over = x.shape[1:]
    weight, bias = drawn(*over), drawn(*over)
    found, y = bound(ATEN.layer_norm.default, input=x, normalized_shape=list(over), weight=weight, bias=bias, eps=eps)
    shaped = (4, *(1 for _ in over))
    agrees(found, normed(x, x.flatten(1), lambda one: one.reshape(shaped), eps, weight[None], bias[None], y))


def test_a_norm_of_one_number_a_row_is_its_shift():
    x = drawn(3, 4, 1)
    found, y = bound(ATEN.layer_norm.default, input=x, normalized_shape=[1], weight=None, bias=None, eps=0.01)
    off = of_sum(x, x**2, 1, 1.2) / math.sqrt(0.01)
    agrees(found, off + 4 * U * x.abs() / math.sqrt(0.01) + 8 * U * y.abs())


def test_of_several_results_a_frozen_norm_is_not_bounded():
    stats = {"running_mean": drawn(6), "running_var": drawn(6) ** 2 + 1, "training": False, "momentum": 0.1}
    given = {"input": drawn(2, 6, 30), "weight": None, "bias": None, **stats, "eps": 1e-5}
    assert bound(ATEN._native_batch_norm_legit.default, **given)[0] is None


@pytest.mark.parametrize(("shape", "dim"), [((2, 5, 1), 0), ((2, 5, 1), 1), ((2, 5, 1), -1), ((2, 33), 1), ((), 0)])
def test_a_running_sum_along_any_axis(shape, dim):
    x = drawn(*shape, 1)[..., 0].float().double()
    found, y = bound(ATEN.cumsum.default, self=x, dim=dim)
    x, right = np.atleast_1d(x.numpy()), np.atleast_1d(y.numpy())
    off = np.maximum.accumulate(np.abs(np.cumsum(x, dim, dtype=np.float32) - right), dim)
    largest = np.maximum.accumulate(np.abs(right), dim)
    depth = math.log2(max(x.shape[dim], 2))
    expected = 2 * off + 5 * U * np.sqrt(np.cumsum(right**2, dim)) + U * (4 + 4 * depth) * largest
    agrees(found, expected.reshape(shape))


def test_a_transform_over_two_axes():
    x = torch.complex(drawn(4, 6), drawn(4, 6))
    found, y = bound(ATEN._fft_c2c.default, self=x, dim=[0, 1], normalization=0, forward=True)
    agrees(found, 2 * of_sum(y.abs(), (y.abs() ** 2).mean((0, 1), keepdim=True), 24))


@pytest.mark.parametrize(
    ("target", "first", "second", "signs"),
    [
        (ATEN.mul.Tensor, 3.0, 2.0, (1, 1)),
        (ATEN.div.Tensor, 3.0, 2.0, (1, -1)),
        (ATEN.pow.Tensor_Tensor, 0.5, -2.0, (-1, 1)),
        (ATEN.pow.Tensor_Tensor, 2.0, -2.0, (-1, -1)),
    ],
)
def test_arguments_are_moved_by_two_units_to_either_side_each(target, first, second, signs):
    unit = 2.0**-4  # so coarse that the worst of the four is another than its mirror image
    x, y = (torch.tensor([one], dtype=torch.float64) for one in (first, second))
    names = [one.name for one in target._schema.arguments]
    found, z = bound(target, unit, **dict(zip(names, (x, y), strict=True)))
    moved = {pair: [1 + 2 * unit * sign for sign in pair] for pair in product((1, -1), repeat=2)}
    apart = {pair: abs(float(target(x * one, y * other) - z)) for pair, (one, other) in moved.items()}
    assert max(apart, key=apart.__getitem__) == signs
    assert float(found) == pytest.approx(apart[signs] + 8 * unit * abs(float(z)), rel=1e-12)


def test_a_third_argument_is_moved_up_and_what_that_makes_nan_allows_nothing():
    x, low, high = (torch.tensor([one], dtype=torch.float64) for one in (5.0, 0.0, 3.0))
    found, _ = bound(ATEN.clamp.Tensor, self=x, min=low, max=high)
    assert float(found) == pytest.approx(2 * U * 3 + 8 * U * 3, rel=1e-9)
    base, power = (torch.tensor([one], dtype=torch.float64) for one in (-2.0, 2.0))
    found, _ = bound(ATEN.pow.Tensor_Tensor, self=base, exponent=power)  # of no other exponent a power
    assert float(found) == pytest.approx(8 * U * 4, rel=1e-9)
