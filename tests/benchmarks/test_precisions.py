"""Fewer bits on the narrow decoder: each precision is another program, and the price is told against float32."""

import pytest
import torch

from kokoro_nb.benchmarks import precisions
from kokoro_nb.benchmarks.precisions import BFLOAT16, DYNAMIC, INT4, INT8, RUNTIME, STATIC, rounded
from kokoro_nb.errors import InputError

LENGTH = 0.2


@pytest.fixture(scope="module")
def measured(narrow, tmp_path_factory):
    rows = precisions.measure(narrow, LENGTH, rounds=1, folder=tmp_path_factory.mktemp("artefacts"))
    return {row.program: row for row in rows}


def test_every_precision_is_timed(measured):
    assert list(measured) == [RUNTIME, STATIC, DYNAMIC, INT8, INT4, BFLOAT16]
    assert all(row.seconds.median > 0 and row.ratio.rounds == 1 for row in measured.values())


def test_fewer_bits_cost_more(measured):
    assert measured[RUNTIME].error < 1e-4
    assert 1e-4 < measured[INT8].error < measured[INT4].error
    assert all(measured[name].error > 1e-4 for name in (STATIC, DYNAMIC, BFLOAT16))
    assert measured[RUNTIME].distance < 0.01 < measured[INT8].distance < measured[INT4].distance


def test_the_model_keeps_its_weights(narrow, measured):
    again = precisions.measure(narrow, LENGTH, [INT8], rounds=1)
    assert again[0].error == measured[INT8].error


def test_the_row_of_a_table(measured):
    told = measured[INT4].as_dict()
    assert told["program"] == INT4
    assert told["log-spectral distance (dB)"] == measured[INT4].distance


@pytest.mark.parametrize("group", [None, 5, 64])
@pytest.mark.parametrize("bits", [4, 8])
def test_a_weight_moves_by_half_a_step_at_most(bits, group):
    weight = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(0))
    found = rounded(weight, bits, group)
    step = weight.abs().amax((1, 2), keepdim=True) / (2 ** (bits - 1) - 1)  # of the widest group
    assert found.shape == weight.shape
    assert ((found - weight).abs() <= step / 2 * 1.001).all()
    assert (found != weight).any()


def test_the_largest_weight_and_zero_stay():
    weight = torch.tensor([[0.0, -3.0, 1.0], [0.0, 0.0, 0.0]])
    assert torch.equal(rounded(weight, 8)[:, :2], weight[:, :2])
    assert torch.equal(rounded(weight, 8)[1], weight[1])


def test_an_unknown_precision_is_one_sentence(narrow):
    with pytest.raises(InputError, match="There is no precision 'int2'"):
        precisions.measure(narrow, LENGTH, ["int2"])
