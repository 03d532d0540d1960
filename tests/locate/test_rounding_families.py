"""The bound of a family of operators on arguments by name, and its formula written again in NumPy."""

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.locate.rounding_families import FAMILIES, Call, by_channel

ATEN = torch.ops.aten
U = 2.0**-24
RANDOM = torch.Generator().manual_seed(0)


def drawn(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


def bound(target, unit=U, **named):
    """Return an operator's bound and its result."""
    right = target(**named)
    return FAMILIES[str(target).split(".")[1]](Call(target, named, right, unit)), right


def of_sum(total, squares, count, along=3):
    return U * math.sqrt(count) * (along * np.abs(total) + 5 * np.sqrt(squares))


def agrees(found, expected):
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-9)


def of_rows(rows):
    """Return the error of sums over the last axis: those that adding one by one makes are allowed twice."""
    x, total = torch.from_numpy(np.ascontiguousarray(rows)), rows.sum(-1)
    call = Call(None, {}, None, U)  # its orders have a test of their own
    orders = [call.in_order(one, -1)[..., -1] for one in (x, x.flip(-1))]
    orders += [call.in_lanes(x, lanes) for lanes in (2, 4, 8, 16)]
    apart = np.max([np.abs(one.numpy() - total) for one in orders], axis=0)
    return np.maximum(of_sum(total, (rows**2).sum(-1), rows.shape[-1], 1.2), 2 * apart)


def moments(rows):
    """Return the error of the mean and the relative one of the variance."""
    count, centre = rows.shape[-1], rows.mean(-1)
    mean = of_rows(rows) / count
    squares = (rows - centre[..., None]) ** 2
    return mean, (of_rows(squares) + count * mean**2) / squares.sum(-1) + 4 * U


def test_products_of_a_layer_and_of_matrices():
    x, w, b = drawn(2, 5), drawn(3, 5), drawn(3)
    found, y = bound(ATEN.linear.default, input=x, weight=w, bias=b)
    agrees(found, of_sum(y, x**2 @ w.T**2 + b**2, 7))
    a, c = drawn(2, 4, 6), drawn(2, 6, 3)
    found, y = bound(ATEN.bmm.default, self=a, mat2=c)
    agrees(found, of_sum(y, a**2 @ c**2, 8))
    found, y = bound(ATEN.addmm.default, self=drawn(2, 3), mat1=x, mat2=w.T, beta=0, alpha=-3)
    agrees(found, of_sum(y, 9 * (x**2 @ w.T**2), 7))
    found, y = bound(ATEN.baddbmm.default, self=drawn(2, 9, 3), batch1=drawn(2, 9, 6), batch2=c, beta=2, alpha=0)
    assert found.max() == pytest.approx(U * math.sqrt(8) * 8 * float(y.abs().max())), "|y| and the root of y² are one"


def test_convolutions_count_the_terms_of_one_element():
    x, w = drawn(1, 4, 12), drawn(6, 2, 5)
    found, y = bound(ATEN.conv1d.default, input=x, weight=w, bias=None, stride=[2], padding=[1], dilation=[1], groups=2)
    agrees(found, of_sum(y, F.conv1d(x**2, w**2, stride=2, padding=1, groups=2), 2 * 5 + 2))
    w = drawn(4, 3, 5)
    found, y = bound(ATEN.conv_transpose1d.default, input=x, weight=w, stride=[2], groups=2)
    agrees(found, of_sum(y, F.conv_transpose1d(x**2, w**2, stride=2, groups=2), 4 // 2 * 3 + 2))
    given = {"stride": [1, 3], "padding": [0, 0], "dilation": [1, 1], "transposed": True, "output_padding": [0, 0]}
    x, w = drawn(1, 4, 3, 12), drawn(4, 3, 2, 7)
    found, y = bound(ATEN.convolution.default, input=x, weight=w, bias=None, **given, groups=1)
    agrees(found, of_sum(y, F.conv_transpose2d(x**2, w**2, stride=(1, 3)), 4 * 2 * 3 + 2))


def test_sums_and_means_over_axes():
    x = drawn(3, 4, 20)
    found, y = bound(ATEN.sum.dim_IntList, self=x, dim=[0, -1])
    agrees(found, of_sum(y, (x**2).sum((0, 2)), 60, 1.2))
    found, y = bound(ATEN.mean.dim, self=x, dim=[1], keepdim=True)
    agrees(found, of_sum(4 * y, (x**2).sum(1, keepdim=True), 4, 1.2) / 4)
    found, y = bound(ATEN.mean.default, self=x)
    agrees(found, of_sum(240 * y, (x**2).sum(), 240, 1.2) / 240)
    found, y = bound(ATEN.sum.dim_IntList, self=drawn(3, 0), dim=[1])
    agrees(found, 0)


@pytest.mark.parametrize("backwards", [False, True])
def test_equal_terms_are_added_one_by_one_and_in_lanes(backwards):
    x = torch.full((1, 100_003), 0.1, dtype=torch.float32).double()
    x[:, :3] = 1e6
    x = x.flip(-1) if backwards else x
    found, y = bound(ATEN.sum.dim_IntList, self=x, dim=[1])
    off = []
    for row in (x[0].numpy(), x[0].numpy()[::-1]):
        off.append(abs(float(np.cumsum(row.astype(np.float32))[-1]) - float(y)))
    for lanes in (2, 4, 8, 16):
        sums, rest = 0.0, len(row) // lanes * lanes
        for lane in range(lanes):
            sums += float(np.cumsum(x[0].numpy()[lane:rest:lanes].astype(np.float32))[-1])
        off.append(abs(sums + float(x[0, rest:].sum()) - float(y)))
    assert 2 * max(off) > of_sum(float(y), float((x**2).sum()), x.numel(), 1.2), "there is something to see"
    agrees(found, 2 * max(off))
    found, _ = bound(ATEN.sum.dim_IntList, 2.0**-53, self=x, dim=[1])
    assert float(found) < 1e-6, "a double is added in doubles"


def test_variances_and_their_roots():
    x = 3 + drawn(4, 50)
    _, relative = moments(x.numpy())
    found, y = bound(ATEN.var.correction, self=x, dim=[1], correction=0)
    agrees(found, y.numpy() * relative)
    found, y = bound(ATEN.std.correction, self=x, dim=[1], correction=1)
    agrees(found, y.numpy() * relative / 2)


def test_a_norm_without_factors_has_gain_one_and_a_frozen_one_is_pointwise():
    x = 1 + drawn(2, 6, 30)
    plain, _ = bound(ATEN.group_norm.default, input=x, num_groups=3, weight=None, bias=None, eps=1e-5)
    ones = {"weight": torch.ones(6).double(), "bias": torch.zeros(6).double()}
    full, _ = bound(ATEN.group_norm.default, input=x, num_groups=3, **ones, eps=1e-5)
    agrees(plain, full)
    stats = {"running_mean": drawn(6), "running_var": drawn(6) ** 2 + 1, "training": False, "momentum": 0.1}
    given = {"input": x, **ones, **stats, "eps": 1e-5, "cudnn_enabled": False}
    found, y = bound(ATEN.batch_norm.default, **given)
    call = Call(ATEN.batch_norm.default, given, y, U)
    agrees(found, FAMILIES["mul"](call))


@pytest.mark.parametrize("dim", [1, -1])
def test_sums_of_exponentials(dim):
    x = 4 * drawn(2, 7, 5)
    count = x.shape[dim]
    below = x.amax(dim, keepdim=True) - x
    around = 3 * math.sqrt(count) + 8
    found, y = bound(ATEN.softmax.int, self=x, dim=dim)
    agrees(found, U * (2 * below + around) * y)
    found, y = bound(ATEN.log_softmax.int, self=x, dim=dim)
    agrees(found, U * (2 * below + around) + 4 * U * y.abs())
    found, y = bound(ATEN.logsumexp.default, self=x, dim=[dim])
    agrees(found, U * (4 * y.abs() + 4 * x.amax(dim).abs() + around))
    found, y = bound(ATEN.logsumexp.default, self=x, dim=[0, dim], keepdim=True)
    agrees(found, U * (4 * y.abs() + 4 * x.amax((0, dim), True).abs() + 3 * math.sqrt(2 * count) + 8))


def test_transforms_by_their_energy():
    x = drawn(3, 16)
    found, y = bound(ATEN.fft_rfft.default, self=x, n=None, dim=-1)
    agrees(found, 2 * of_sum(y.abs(), (y.abs() ** 2).mean(-1, keepdim=True), 16))
    window = torch.hann_window(8).double()
    named = {"self": x, "n_fft": 8, "hop_length": 2, "win_length": 8, "window": window}
    found, y = bound(ATEN.stft.default, **named, normalized=False, onesided=True, return_complex=True)
    agrees(found, 2 * of_sum(y.abs(), (y.abs() ** 2).mean(-2, keepdim=True), 8))


def test_lengths_and_what_is_divided_by_them():
    v, g = drawn(4, 9), drawn(4, 1)
    found, y = bound(ATEN._weight_norm.default, v=v, g=g, dim=0)
    agrees(found, U * y.abs() * (3 * 3 + 8))
    found, y = bound(ATEN.linalg_vector_norm.default, self=v, ord=2, dim=[0, 1])
    agrees(found, U * y.abs() * (3 * 6 + 8))


def test_interpolations_along_the_slope():
    x = drawn(1, 2, 9)
    found, y = bound(ATEN.upsample_linear1d.vec, input=x, output_size=[18], align_corners=False, scale_factors=None)
    steps = np.abs(np.diff(x.numpy(), axis=-1))
    steep = np.array([[steps[0, c, max(0, i - 2) : i + 3].max() for i in range(9)] for c in range(2)])
    slope = F.interpolate(torch.from_numpy((steep * np.arange(1, 10))[None]), 18)
    agrees(found, 4 * U * y.abs() + 4 * U * slope)
    x = drawn(1, 1, 4, 6)
    found, y = bound(
        ATEN.upsample_bilinear2d.vec, input=x, output_size=[8, 12], align_corners=False, scale_factors=None
    )
    across = 4 * float(x.diff(dim=2).abs().max()) + 6 * float(x.diff(dim=3).abs().max())
    agrees(found, 4 * U * y.abs() + 4 * U * across)


def test_functions_of_each_element_by_moving_their_arguments():
    x, y = drawn(50), drawn(50)
    found, z = bound(ATEN.sub.Tensor, self=x, other=y)
    agrees(found, 2 * U * (x.abs() + y.abs()) + 8 * U * z.abs())
    x = 3 + torch.rand(50, generator=RANDOM).double()
    found, z = bound(ATEN.exp.default, self=x)
    agrees(found, z * np.expm1(2 * U * x) + 8 * U * z)
    assert bound(ATEN.mul.Tensor, self=torch.complex(x, x), other=x)[0] is None
    found, z = bound(ATEN.log.default, self=torch.zeros(2).double())
    assert not found[0] < math.inf, "infinity stays what it is"


def test_chains_move_their_arguments_by_a_sum():
    q, k, v = (drawn(1, 3, 16, 8) for _ in range(3))
    given = {"query": q, "key": k, "value": v}
    target = ATEN.scaled_dot_product_attention.default
    found, y = bound(target, **given)
    generator = torch.Generator().manual_seed(0)
    step = 3 * U * math.sqrt(8)
    lots = (torch.rand(one.shape, generator=generator, dtype=torch.float64) for one in (q, k, v))
    moved = [one * (1 + step * (2 * lot - 1)) for one, lot in zip((q, k, v), lots, strict=True)]
    apart = (target(*moved) - y).abs().amax((0, 2, 3), keepdim=True)
    agrees(found, 2 * apart + 8 * U * y.abs())


def test_the_largest_of_each_channel():
    values = np.arange(48.0).reshape(2, 3, 8)
    assert by_channel(values).ravel().tolist() == [31, 39, 47]
    assert by_channel(values[:, :, :3]).tolist() == [[[42.0]]], "channels of six elements are taken together"
    assert by_channel(values[:, :, :4]).shape == (1, 3, 1)
    assert by_channel(np.arange(5.0)).tolist() == [4.0]
    assert by_channel(np.zeros((0, 2))).tolist() == [[0.0]]
    assert by_channel(np.array(3.0)).tolist() == 3.0
    assert by_channel(values[:, :, 1:]).ravel().tolist() == [31, 39, 47]
    assert by_channel(values[:1, :, :7]).tolist() == [[[22.0]]], "seven each"
    assert by_channel(-values).ravel().tolist() == [0, 0, 0], "and 0 is the least"


@pytest.mark.parametrize(("scale", "reach"), [(3.0, 2.0), (1e-6, None)])
def test_a_difference_from_one_has_the_rounding_of_one_and_no_more_than_that_of_its_results(scale, reach):
    x = scale * drawn(2, 50)
    found, y = bound(ATEN.elu.default, self=x, alpha=2.0)
    plain, _ = bound(ATEN.leaky_relu.default, self=torch.zeros(2, 50, dtype=torch.float64))
    moved = torch.maximum(*(abs(F.elu(x * (1 + k * 2 * U), 2.0) - y) for k in (1, -1)))
    agrees(found, moved + 8 * U * (abs(y) + min(reach or np.inf, float(abs(y).max()))))
    assert float(plain.max()) == 0, "a function of no difference has no such room"


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
    found, y = bound(ATEN.avg_pool1d.default, self=x[0], kernel_size=[4], stride=[1])
    agrees(found, of_sum(y, F.avg_pool1d(x[0] ** 2, 4, 1) / 4, 4))
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
