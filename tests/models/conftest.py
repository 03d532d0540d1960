import pytest
import torch


@pytest.fixture
def in_double():
    """Have torch make float64 by default: the package leaves the choice of a dtype to torch in places."""
    standard = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(standard)
