"""The bounds of families of operators where axes are many, few or empty, and the orders in which sums are taken."""

import math
from dataclasses import FrozenInstanceError
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.locate.rounding_families import Call
from tests.locate.family_bounds import ATEN, U, agrees, bound, drawn, moments, of_sum


def added(terms, dtype):
    """Add one after the other in a dtype."""
    total = dtype(0)
    for term in terms:
        total = dtype(total + dtype(term))
    return float(total)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("count", [1, 3, 16, 37, 64])
@pytest.mark.parametrize(("unit", "dtype"), [(2.0**-11, np.float32), (U, np.float32), (2.0**-53, np.float64)])
def test_lanes_are_added_one_by_one_each_and_what_is_left_over_is_exact(lanes, count, unit, dtype):
    x = 1 + 1e3 * drawn(3, 2, count).abs()
    call = Call(None, {}, None, unit)
    whole = count // lanes * lanes
    for row, given in zip(x.reshape(6, count).numpy(), call.in_lanes(x, lanes).reshape(6), strict=True):
        sums = [added(row[lane:whole:lanes], dtype) for lane in range(lanes)]
        assert float(given) == pytest.approx(sum(sums) + row[whole:].sum(), rel=1e-14)
    ordered = call.in_order(x, -1)
    assert ordered.dtype == torch.float64
    assert float(ordered[2, 1, -1]) == added(x[2, 1].numpy(), dtype)
    assert float(call.in_order(x, 0)[2, 1, 0]) == added(x[:, 1, 0].numpy(), dtype)


def test_a_sum_of_squares_that_rounding_made_negative_is_none():
    call = Call(None, {}, None, U)
    with pytest.raises(FrozenInstanceError):
        call.unit = 0.0
    assert len({call, Call(None, {}, None, U)}) == 2, "one holds tensors, and is equal to itself alone"
    assert float(call.of_sum(torch.tensor(2.0), torch.tensor(-0.5), 4)) == pytest.approx(U * 2 * 3 * 2)
    assert float(call.of_sum(torch.tensor(-2.0), torch.tensor(0.25), 9, 1.0)) == pytest.approx(U * 3 * (2 + 5 / 2))


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
    found, y = bound(ATEN.group_norm.default, num_groups=2, **given, eps=eps)
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
    x = drawn(*shape).float().double()
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


@pytest.mark.parametrize("size", [(1, 6), (2, 6), (6, 2), (6, 1), (1, 1)])
def test_an_axis_of_one_element_has_no_slope(size):
    x = drawn(1, 2, *size)
    named = {"input": x, "output_size": [8, 12], "align_corners": False, "scale_factors": None}
    found, y = bound(ATEN.upsample_bilinear2d.vec, **named)
    across = sum(n * float(x.diff(dim=axis).abs().max()) for axis, n in zip((2, 3), size, strict=True) if n > 1)
    agrees(found, 4 * U * y.abs() + 4 * U * across)


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


def test_every_argument_of_a_recurrence_is_moved_in_turn():
    weights = [0.3 * drawn(8, 4), 0.3 * drawn(8, 2), drawn(8), drawn(8)]
    state = [drawn(1, 3, 2), drawn(1, 3, 2)]
    named = {"input": drawn(5, 3, 4), "hx": state, "params": weights, "has_biases": True}
    named |= {"num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False, "batch_first": False}
    bounds, results = bound(ATEN.lstm.input, **named)
    generator, step = torch.Generator().manual_seed(0), 3 * U * math.sqrt(8)

    def moved(one):
        return one * (1 + step * (2 * torch.rand(one.shape, generator=generator, dtype=torch.float64) - 1))

    named["input"], named["hx"] = moved(named["input"]), [moved(one) for one in state]
    named["params"] = [moved(one) for one in weights]
    for found, given, right in zip(bounds, ATEN.lstm.input(**named), results, strict=True):
        apart = (given - right).abs()
        few = apart[:, 0].numel() < 8
        largest = apart.max() if few else apart.amax((0, 2), keepdim=True)
        agrees(found, (2 * largest + 8 * U * right.abs()).numpy())
