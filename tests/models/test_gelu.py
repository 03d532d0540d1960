import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.models.other_layers import tanh_gelu, tanh_gelu_written_out

X = torch.linspace(-6, 6, 2001)


def _operators(module):
    program = torch.export.export(module, (X,), strict=False)
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


class Functional(nn.Module):
    def forward(self, x):
        return F.gelu(x, approximate="tanh") + F.gelu(input=x, approximate="tanh")


def test_the_formula_is_torch_s_own():
    exact = F.gelu(X.double(), approximate="tanh")
    torch.testing.assert_close(tanh_gelu(X.double()), exact, rtol=0, atol=1e-15)
    # the control: the two kinds of gelu are 4.7e-4 apart at most
    assert (F.gelu(X.double()) - exact).abs().max().item() == pytest.approx(4.73e-4, rel=0.01)


@pytest.mark.parametrize("module", [nn.GELU(approximate="tanh"), Functional()], ids=["module", "functional"])
def test_programs_exported_inside_hold_the_formula(module):
    assert "aten.gelu.default" in _operators(module)
    with tanh_gelu_written_out():
        within = _operators(module)
        assert _operators(nn.GELU()) == ["aten.gelu.default"], "the one with erf is left alone"
    assert "aten.gelu.default" not in within
    assert "aten.tanh.default" in within
    assert "aten.gelu.default" in _operators(module)


def test_it_ends_with_the_block_also_after_an_error():
    with pytest.raises(ZeroDivisionError), tanh_gelu_written_out():
        raise ZeroDivisionError
    assert _operators(nn.GELU(approximate="tanh")) == ["aten.gelu.default"]
