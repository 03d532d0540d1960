import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from kokoro_nb.backends.executorch.remembered_results import RememberedResults

ATEN = torch.ops.aten


@pytest.fixture
def mode():
    with FakeTensorMode(shape_env=ShapeEnv(allow_dynamic_output_shape_ops=True)) as mode:
        yield mode


@pytest.fixture
def calls():
    return []


@pytest.fixture
def results(calls):
    def call(operator, *args, **kwargs):
        calls.append(operator)
        return operator(*args, **kwargs)

    return RememberedResults(call)


def test_the_same_tensors_give_what_they_gave_and_others_do_not(mode, results, calls):
    x, y, w = torch.empty(2, 3), torch.empty(2, 3), torch.empty(2, 3, dtype=torch.float64)
    first = results.of(ATEN.add.Tensor, x, y)
    assert results.of(ATEN.add.Tensor, x, y) is first
    assert len(calls) == 1
    assert results.of(ATEN.add.Tensor, x, w).dtype == torch.float64
    assert results.of(ATEN.mul.Tensor, x, y) is not first
    assert results.of(ATEN.cat.default, [x, y], 1).shape == (2, 6)
    assert results.of(ATEN.cat.default, [x, y], 0).shape == (4, 3)
    assert len(calls) == 5


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (True, 1), (2, 3)])
def test_numbers_of_another_type_are_others(mode, results, one, other):
    counts = torch.empty(4, dtype=torch.int64)
    found = [results.of(ATEN.add.Scalar, counts, value).dtype for value in (one, other)]
    assert found == [ATEN.add.Scalar(counts, value).dtype for value in (one, other)]


def test_named_arguments_and_dtypes_count(mode, results):
    x = torch.empty(3)
    assert results.of(ATEN._to_copy.default, x, dtype=torch.float64).dtype == torch.float64
    assert results.of(ATEN._to_copy.default, x, dtype=torch.int64).dtype == torch.int64
    assert results.of(ATEN.sum.dim_IntList, x, [0], keepdim=True).shape == (1,)
    assert results.of(ATEN.sum.dim_IntList, x, [0], keepdim=False).shape == ()


def test_a_tensor_that_is_gone_is_not_taken_for_the_next_one(mode, results):
    for size in range(1, 200):  # each would lie where the one before did
        assert results.of(ATEN.relu.default, torch.empty(size)).shape == (size,)


def test_what_writes_is_called_each_time(mode, results, calls):
    x, y = torch.empty(3), torch.empty(3)
    for _ in range(3):
        assert results.of(ATEN.add_.Tensor, x, y) is x
    assert len(calls) == 3


def test_sizes_that_are_not_known_and_values_are_found_each_time(results, calls):
    with FakeTensorMode(shape_env=ShapeEnv()):
        x = torch.empty(5)
        for _ in range(2):
            assert not isinstance(results.of(ATEN.nonzero.default, x).shape[0], int)
    for _ in range(2):
        torch.testing.assert_close(results.of(ATEN.add.Tensor, torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))
    assert len(calls) == 4
