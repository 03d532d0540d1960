"""The bound of a family of operators on arguments by name, where `test_rounding_bound` cannot tell it by a result."""

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.locate.rounding_bound import RoundingBound
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


def test_a_frozen_norm_is_pointwise():
    stats = {"running_mean": drawn(6), "running_var": drawn(6) ** 2 + 1, "training": False, "momentum": 0.1}
    given = {"input": 1 + drawn(2, 6, 30), "weight": None, "bias": None, **stats, "eps": 1e-5}
    found, y = bound(ATEN.batch_norm.default, **given, cudnn_enabled=False)
    agrees(found, FAMILIES["mul"](Call(ATEN.batch_norm.default, given | {"cudnn_enabled": False}, y, U)))
    assert bound(ATEN._native_batch_norm_legit.default, **given)[0] is None, "of several results, none"


def test_the_bound_of_a_norm_is_that_of_its_variant_with_several_results():
    given = {"input": 1 + drawn(4, 6, 7), "weight": drawn(6), "bias": drawn(6)}
    stats = {"training": True, "momentum": 0.1, "eps": 1e-2}
    (found, *rest), _ = bound(ATEN._native_batch_norm_legit.no_stats, **given, **stats)
    more = {"running_mean": None, "running_var": None, "cudnn_enabled": False}
    plain, _ = bound(ATEN.batch_norm.default, **given, **stats, **more)
    agrees(found, plain)
    assert rest == [None, None]


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


@pytest.mark.parametrize("scale", [3.0, 1e-6])
def test_a_difference_from_one_has_the_rounding_of_one_and_expm1_no_more_than_that_of_its_results(scale):
    x = scale * drawn(2, 50)
    found, y = bound(ATEN.elu.default, self=x, alpha=2.0)
    plain, _ = bound(ATEN.leaky_relu.default, self=torch.zeros(2, 50, dtype=torch.float64))
    moved = torch.maximum(*(abs(F.elu(x * (1 + k * 2 * U), 2.0) - y) for k in (1, -1)))
    agrees(found, moved + 8 * U * (abs(y) + 2.0))
    found, y = bound(ATEN.expm1.default, self=x)
    moved = torch.maximum(*(abs(torch.expm1(x * (1 + k * 2 * U)) - y) for k in (1, -1)))
    agrees(found, moved + 8 * U * (abs(y) + min(1.0, float(abs(y).max()))))
    assert float(plain.max()) == 0, "a function of no difference has no such room"


@pytest.mark.parametrize("named", [{"dim": [0]}, {"dim": [-1]}, {"dim": None}])
def test_the_sum_of_one_number(named):
    found, y = bound(ATEN.sum.dim_IntList, self=torch.tensor(-3.0).double(), **named)
    agrees(found, of_sum(y, 9.0, 1, 1.2))


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


def test_what_has_no_finite_bound_is_not_moved():
    x = torch.tensor([-torch.inf, 1, 2], dtype=torch.float64)
    moved = RoundingBound("float32")(ATEN.softmax.int, (x, -1), {}, x.softmax(-1))
    assert moved.tolist() == pytest.approx(x.softmax(-1).tolist(), rel=1e-6)
