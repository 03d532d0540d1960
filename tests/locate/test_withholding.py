import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.executorch.partition import Withholding
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from kokoro_nb.locate.withholding import mending

X = {"x": torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(0))}


class Net(nn.Module):
    def __init__(self, approximate):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.approximate = nn.Linear(16, 16), nn.Conv1d(4, 4, 3), approximate

    def forward(self, x):
        y = F.gelu(self.first(3 * x), approximate=self.approximate[0])
        return self.last(F.gelu(y + 1, approximate=self.approximate[1]))


@pytest.fixture
def backend():
    made = Withholding("executorch-xnnpack")
    if made.available() is not None:
        pytest.skip(made.available())
    return made


def test_what_xnnpack_gets_wrong_is_found(backend, tmp_path):
    found = mending(export_program(Net(("tanh", "none")), X), X, backend, tmp_path)
    assert (found.verdict, found.operators) == ("fail", (":gelu",))
    assert found.compilations <= found.limit == 6


@pytest.mark.slow
def test_two_defects_are_both_withheld(backend, tmp_path):
    found = mending(export_program(Net(("tanh", "tanh")), X), X, backend, tmp_path)
    assert (found.verdict, found.operators) == ("fail", (":gelu", ":gelu#2"))


def test_a_wrong_program_is_not_the_delegate_s_fault(backend, tmp_path):
    candidate = plant(export_program(Net(("none", "none")), X), Fault("sign_flip", ":add"))
    found = mending(candidate, X, backend, tmp_path)
    assert (found.verdict, found.operators, found.compilations) == ("unknown", (), 2)
    assert "so is the program" in found.reason


def test_a_right_answer_needs_no_mending(backend, tmp_path):
    found = mending(export_program(Net(("none", "none")), X), X, backend, tmp_path)
    assert (found.verdict, found.compilations) == ("pass", 1)


def test_only_xnnpack_can_be_withheld_from():
    with pytest.raises(InputError, match="From 'coreml' nothing can be withheld"):
        Withholding("x", delegate="coreml")
    with pytest.raises(InputError, match="From eager nothing can be withheld"):
        mending(export_program(Net(("none", "none")), X), X, BACKENDS["eager"])


def test_what_is_withheld_is_part_of_the_key():
    keys = {str(Withholding("x", withheld=names).options()) for names in ((), ("a",), ("a", "b"), ("b", "a"))}
    assert len(keys) == 3
