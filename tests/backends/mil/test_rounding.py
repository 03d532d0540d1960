"""What enters an operator, and how its result is stored."""

import pytest
import torch

from kokoro_nb.backends.mil.rounding import FLOAT32, FLOAT64, STRICT

SINGLE, WHOLE = torch.ones(2), torch.ones(2, dtype=torch.int32)


def test_a_result_is_stored_in_the_declared_dtype():
    third = torch.tensor([1 / 3], dtype=torch.float64)
    assert FLOAT32.stored(third, torch.float16).item() == torch.tensor(1 / 3).half().item()
    assert STRICT.stored(third, torch.float32).item() == torch.tensor(1 / 3).item()
    assert FLOAT64.stored(third, torch.float16).item() == 1 / 3
    assert FLOAT64.stored(torch.tensor([7]), torch.int32).dtype == torch.int32


@pytest.mark.parametrize(("value", "declared"), [(SINGLE, torch.int32), (torch.ones(2, dtype=torch.bool), torch.int32)])
def test_a_result_of_another_kind_is_an_error(value, declared):
    with pytest.raises(TypeError, match=f"the file declares {declared}, the operator gave {value.dtype}"):
        FLOAT32.stored(value, declared)


@pytest.mark.parametrize(
    ("arithmetic", "value", "declared", "admitted"),
    [
        (FLOAT32, SINGLE.double(), torch.float32, False),
        (FLOAT64, SINGLE.double(), torch.float32, True),
        (FLOAT32, torch.tensor([2**31 - 1]), torch.int32, True),
        (FLOAT32, torch.tensor([2**31]), torch.int32, False),
        (FLOAT32, torch.tensor([], dtype=torch.int64), torch.int32, True),
        (FLOAT32, torch.tensor([True]), torch.int32, False),
    ],
)
def test_what_an_input_may_be(arithmetic, value, declared, admitted):
    assert arithmetic.admits(value, declared) == admitted
