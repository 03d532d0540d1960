import pytest
import torch
from torch import nn
from torch._export import utils
from torch._ops import OperatorBase

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.exported import content
from kokoro_nb.backends.quick_decompositions import quick_decompositions


class Composite(nn.Module):
    """Composite operators, of which `default_decompositions` decomposes some and ``{}`` none, and a write in place."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.normed = nn.Conv1d(4, 4, 3), nn.InstanceNorm1d(4)

    def forward(self, x):
        x = self.normed(self.layer(x))
        x[:, 0] = 0.0
        first, second = x.chunk(2, dim=1)
        return nn.functional.silu(first @ second.transpose(1, 2))


@pytest.fixture(scope="module")
def program():
    with quietly():
        return torch.export.export(Composite().eval(), (torch.ones(1, 4, 9),))


def _decomposed(program):
    with quietly():
        return [content(program.run_decompositions(table)) for table in ({}, None)]


def _rules():
    return {name: {**packet.default.py_kernels} for name, packet in _composite().items()}


def _composite():
    return {name: getattr(torch.ops.aten, name) for name in ("conv1d", "instance_norm", "silu", "chunk", "matmul")}


def test_programs_are_the_same_and_rules_are_as_before(program):
    plain = _decomposed(program)
    before = _rules()
    with quick_decompositions():
        assert _decomposed(program) == plain
    assert _rules() == before
    assert len(set(plain)) == 2, "the tables of this test do not differ"


def test_operators_are_looked_up_once_and_again_when_there_is_a_new_one(program, monkeypatch):
    looked_up = []
    look_up = utils._materialize_cpp_cia_ops
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", lambda: looked_up.append(look_up()))
    with quick_decompositions():
        _decomposed(program)
        looked_up.clear()
        _decomposed(program)
        assert not looked_up
    _decomposed(program)
    assert looked_up
    looked_up.clear()
    library = torch.library.Library("quick_decompositions", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
    with quick_decompositions():
        known = utils._collect_all_valid_cia_ops()
    assert len(looked_up) == 1
    assert torch.ops.quick_decompositions.twice.default in known


def test_what_cannot_be_registered_is_refused_as_ever():
    operator = torch.ops.aten.conv1d.default
    with quick_decompositions():
        with pytest.raises(AssertionError, match="expected DispatchKey"):
            operator.py_impl("CPU")(print)
        with pytest.raises(AssertionError, match=r"DispatchKey\.Python"):
            operator.py_impl(torch._C.DispatchKey.Python)(print)
        operator.py_impl(torch._C.DispatchKey.PrivateUse3)(print)
        try:
            with pytest.raises(RuntimeError, match="override a python impl"):
                operator.py_impl(torch._C.DispatchKey.PrivateUse3)(print)
        finally:
            del operator.py_kernels[torch._C.DispatchKey.PrivateUse3]


def test_registering_is_the_ordinary_one_again_afterwards():
    ordinary = OperatorBase.py_impl, utils._materialize_cpp_cia_ops
    with quick_decompositions():
        assert OperatorBase.py_impl is not ordinary[0]
    assert (OperatorBase.py_impl, utils._materialize_cpp_cia_ops) == ordinary
