"""Products of matrices."""

import math

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.backends.mil.operators.registry import OperatorSite
from kokoro_nb.backends.mil.rounding import STRICT
from kokoro_nb.errors import InputError
from tests.backends.mil.conftest import drawing

_x = drawing()


def _attention(query, key, value, attn_mask=None):
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, -1) @ value


HEADS = {"query": _x(2, 3, 4, 8), "key": _x(2, 3, 5, 8), "value": _x(2, 3, 5, 6)}
LOWER = np.tril(np.ones((4, 5), bool))
NOBODY = LOWER & (np.arange(4) > 0)[:, None]  # a row of NaN
WHOLE = np.arange(-6, 6, dtype="int32").reshape(3, 4)
ODD = np.array([[1.0, np.inf], [np.nan, 0.0]], "float32")

CASES = {
    "matmul": [
        *(
            {"inputs": {"x": _x(*x), "y": _x(*y)}, "transpose_x": tx, "transpose_y": ty}
            for x, y, tx, ty in [
                ((7, 3), (2, 7), True, True),
                ((2, 1, 3, 7), (4, 7, 2), False, False),
                ((7,), (7, 2), False, False),  # with (4, 7, 2) coremltools infers a wrong shape
            ]
        ),
        {"inputs": {"x": np.arange(6, dtype="int32").reshape(2, 3), "y": WHOLE}},
        {"inputs": {"x": ODD, "y": np.array([[1.0], [0.0]], "float32")}},
    ],
    "linear": [
        {"inputs": _x(2, 3, 7), "weight": _x(5, 7), "bias": _x(5)},
        {"inputs": _x(7), "weight": _x(5, 7), "bias": _x(5)},
    ],
    "einsum": [
        {"inputs": {"values": [_x(2, 3, 4, 5), _x(2, 5, 4, 6)]}, "equation": "nchw,nwhu->nchu"},
        {"inputs": {"values": [_x(3, 4, 5), _x(5, 4, 6)]}, "equation": "chw,whr->chr"},
        {"inputs": {"values": [_x(3, 1, 5), _x(5, 4, 6)]}, "equation": "abc,cbd->abd"},
    ],
    "scaled_dot_product_attention": [
        {"inputs": {**HEADS, **mask}, "expected": _attention, "opset": "iOS18"}
        for mask in ({}, *({"attn_mask": one} for one in (LOWER, _x(4, 5), NOBODY)))
    ],
}


def test_a_weight_of_another_precision_is_taken_in_that_of_the_input(mil):
    x, weight = _x(3, 7).astype("float16"), _x(5, 7)
    (wide,) = mil.run("linear", x, weight=weight, bias=_x(5))
    (strict,) = mil.run("linear", x, weight=weight, arithmetic=STRICT)
    assert wide.dtype == strict.dtype == np.float16
    np.testing.assert_allclose(strict, x.astype("float64") @ weight.T, atol=0.01)


def test_an_equation_that_mil_does_not_know_is_refused():
    site = OperatorSite("einsum", "product", 8, (torch.float32,))
    with pytest.raises(InputError, match="has the equation ab,bc->ac, and MIL knows"):
        OPERATORS["einsum"](site, values=[torch.ones(2, 2)] * 2, equation="ab,bc->ac")
