"""The bound of a family of operators on arguments by name, and its formula written again in NumPy."""

import math

import numpy as np
import torch

from kokoro_nb.locate.rounding_families import FAMILIES, Call

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
